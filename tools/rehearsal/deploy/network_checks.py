"""A private network in the emulated AWS: calls by Lambda's Invoke.

The emulated Lambda keeps no function's VPC: the tests of templates show where the functions are.
"""

from typing import Any

from botocore.credentials import Credentials as BotocoreCredentials

from embedding_client import EmbeddingClient, EmbeddingClientError, ForbiddenError, SigV4Auth
from tools.rehearsal.deploy.callers import CALLER, STRANGER
from tools.rehearsal.deploy.calls import send
from tools.rehearsal.deploy.deployed import Outputs
from tools.rehearsal.deploy.emulator import ACCOUNT, Emulator
from tools.rehearsal.image.report import Report

__all__ = ["INVOKERS", "check_network"]

#: The settings of `[callers]` next to `[network]`.
INVOKERS: dict[str, Any] = {"roles": [f"arn:aws:iam::{ACCOUNT}:role/{CALLER}"], "invoke": True}
_TEXT = "hello, embedding"
_BY = "EmbeddingClient(function=AliasArn) as that role; the emulated AWS's policies"


def check_network(report: Report, aws: Emulator, deployed: Outputs) -> None:
    """Call the endpoint by Invoke, as a caller and as another role."""
    caller = aws.assume(f"arn:aws:iam::{aws.account}:role/{CALLER}")
    by_url = send(aws, str(deployed["Url"]), {"text": _TEXT}, who=caller)
    try:
        with _client(aws, deployed, CALLER) as client:
            vector = client.embed_one(_TEXT).tolist()
            same = client.vector_space == by_url.json()["vector_space"]
        # Both are the same float32 numbers, of which the URL's JSON has the shortest digits.
        close = all(
            abs(one - two) <= 1e-8
            for one, two in zip(vector, by_url.json()["embedding"], strict=True)
        )
        answer = f"{len(vector)} numbers"
    except EmbeddingClientError as error:
        same, close, answer = False, False, str(error)
    report.check(
        "network",
        "an allowed role gets the URL's vector by Invoke",
        same and close,
        by=_BY,
        found=answer,
    )
    try:
        with _client(aws, deployed, STRANGER) as client:
            client.embed_one(_TEXT)
        refused = "answered"
    except EmbeddingClientError as error:
        refused = type(error).__name__
    report.check(
        "network",
        "another role of the account is refused",
        refused == ForbiddenError.__name__,
        by=_BY,
        found=refused,
    )


def _client(aws: Emulator, deployed: Outputs, role: str) -> EmbeddingClient:
    who = aws.assume(f"arn:aws:iam::{aws.account}:role/{role}")
    return EmbeddingClient(
        function=str(deployed["AliasArn"]),
        endpoint_url=aws.url,
        auth=SigV4Auth(
            credentials=BotocoreCredentials(who.key, who.secret, who.token), region=aws.region
        ),
    )
