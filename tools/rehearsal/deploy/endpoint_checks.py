"""Checks of a deployed endpoint: who gets an answer, and what a changed code changes."""

import dataclasses
from typing import Any

from botocore.exceptions import ClientError

from tools.rehearsal.deploy.cdk import Cdk
from tools.rehearsal.deploy.emulator import Emulator
from tools.rehearsal.deploy.function_server import FunctionServer
from tools.rehearsal.report import Report

#: The roles of a caller, and of somebody else in the account.
CALLER, STRANGER = "rehearsal-caller", "rehearsal-stranger"
_BODY = {"text": "hello, embedding"}


def ask(aws: Emulator, url: str, text: str = _BODY["text"]) -> Any:
    """Send a text to a Function URL, signed by the caller; return the response."""
    return aws.post(url, {"text": text}, who=aws.assume(CALLER))


def same_vector(one: Any, other: Any) -> bool:
    """Return whether two responses have the same vector, to the last bit, and the same space."""
    same = ("embedding", "vector_space")
    return one.status_code == other.status_code == 200 and all(
        one.json()[name] == other.json()[name] for name in same
    )


def check_answers(
    report: Report, aws: Emulator, deployed: dict[str, str], function: FunctionServer
) -> None:
    """Call the endpoint as an allowed role, as another role, and without a signature."""
    url, before = deployed["Url"], function.events
    allowed = ask(aws, url)
    size = len(allowed.json().get("embedding", [])) if allowed.status_code == 200 else 0
    found = f"{allowed.status_code}, {size} numbers"
    report.check("the allowed role gets 200 and a vector", size > 0, found)
    refused = [
        aws.post(url, _BODY, who=aws.assume(STRANGER)).status_code,
        aws.post(url, _BODY).status_code,
        aws.post(url, _BODY, who=aws.assume(CALLER), tampered=True).status_code,
    ]
    check = "another role, an unsigned request and a changed body get 403"
    report.check(check, refused == [403] * 3, refused)
    count = function.events - before
    report.check("refused requests do not invoke the function", count == 1, f"{count} events")
    invoked = []
    for arn in (deployed["AliasArn"], deployed["AliasArn"].rpartition(":")[0]):
        try:
            aws.client("lambda", aws.assume(CALLER)).invoke(FunctionName=arn, Payload=b"{}")
            invoked.append("answered")
        except ClientError as error:
            invoked.append(error.response["Error"]["Code"])
    check = "the allowed role may invoke neither alias nor function except through the URL"
    report.check(check, invoked == ["AccessDeniedException"] * 2, invoked)


def check_code_change(cdk: Cdk) -> None:
    """Change the code and deploy: another version answers at the same URL."""
    report = cdk.report
    same = cdk.diff("with nothing changed")
    report.check("it finds no difference in a second synth", same.status == 0, same.last())
    before = _read_running(cdk)
    cdk.checkout.change_code()
    changed = cdk.diff("with changed code")
    gone = changed.count(r"(?m)^\[-\] AWS::(?!Lambda::Version)")
    check = "it finds the change, and removes no resource except the old version's"
    report.check(check, changed.status == 1 and not gone, changed.last())
    # With the assembly of the diff, which saves another synth.
    cdk.succeeded(cdk.deploy("with changed code", assembly=cdk.assembly))
    after = _read_running(cdk)
    report.check("the URL is the same", before.url == after.url)
    report.check(
        "a new version runs another image, and the old version still exists",
        after.version > before.version
        and after.image != before.image
        and before.version in after.versions,
        f"version {before.version} to {after.version}, of {sorted(after.versions)}",
    )


@dataclasses.dataclass(frozen=True)
class _Running:
    """The alias's version, that version's image, the URL, and all versions."""

    version: int
    image: str
    url: str
    versions: list[int]


def _read_running(cdk: Cdk) -> _Running:
    client = cdk.aws.client("lambda")
    function, _, alias = cdk.outputs()["AliasArn"].rpartition(":")
    version = client.get_alias(FunctionName=function, Name=alias)["FunctionVersion"]
    listed = client.list_versions_by_function(FunctionName=function)["Versions"]
    return _Running(
        int(version),
        client.get_function(FunctionName=function, Qualifier=version)["Code"]["ImageUri"],
        client.get_function_url_config(FunctionName=function, Qualifier=alias)["FunctionUrl"],
        [int(found["Version"]) for found in listed if found["Version"] != "$LATEST"],
    )
