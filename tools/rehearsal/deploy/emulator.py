"""An emulated AWS on this machine: MiniStack with our plugin, with signatures and policies checked.

One port serves every AWS API, the image registry and the Function URLs. With `AUTH`, MiniStack
checks signatures and policies, so a deploy succeeds only with the policies that the stacks and
bootstrap grant. An access key equal to an account's number is that account's root, without checks.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import botocore.session
import httpx2
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials

from tools.pinned_environment import pinned_environment
from tools.process import answers, free_ports, running

ACCOUNT, REGION = "123456789012", "us-east-1"
_PINS = Path(__file__).parents[1] / "ministack.txt"
_PLUGIN = Path(__file__).parents[1] / "ministack" / "ministack_plugin.py"
_START_SECONDS = 60


@dataclass(frozen=True)
class Emulator:
    """A running emulated AWS, at a port of 127.0.0.1."""

    port: int
    account = ACCOUNT
    region = REGION
    #: The address of ECR, as AWS writes it.
    registry = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
    #: The account's root: its requests are not checked.
    root = ReadOnlyCredentials(ACCOUNT, "test", None)

    @property
    def url(self) -> str:
        """The endpoint of every API."""
        return f"http://localhost:{self.port}"

    def client(self, service: str, who: ReadOnlyCredentials | None = None) -> Any:
        """Create a client of a service, with the root's credentials by default."""
        return _client(self.url, service, who or self.root)

    def make_role(self, name: str) -> str:
        """Create a role that the account may assume and that has no policy; return its ARN."""
        principal = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
        statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
        trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        role = self.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=trust)
        return str(role["Role"]["Arn"])

    def assume(self, role: str) -> ReadOnlyCredentials:
        """Assume a role, by its ARN or its name."""
        arn = role if role.startswith("arn:") else f"arn:aws:iam::{ACCOUNT}:role/{role}"
        answer = self.client("sts").assume_role(RoleArn=arn, RoleSessionName="rehearsal")
        keys = ("AccessKeyId", "SecretAccessKey", "SessionToken")
        return ReadOnlyCredentials(*(answer["Credentials"][key] for key in keys))

    def outputs(self, stack: str) -> dict[str, str]:
        """Return the outputs of a stack."""
        (description,) = self.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
        return {item["OutputKey"]: item["OutputValue"] for item in description.get("Outputs", [])}

    def code_of(self, function: str, version: str = "$LATEST") -> bytes:
        """Download the deployed zip of a function."""
        function_configuration = self.client("lambda").get_function(
            FunctionName=function, Qualifier=version
        )
        # The address is signed for a host that only AWS has; the emulated AWS is here.
        address = urlsplit(function_configuration["Code"]["Location"])
        url = f"{self.url}{address.path}?{address.query}"
        return httpx2.get(url, timeout=120, trust_env=False).raise_for_status().content

    def post(
        self,
        url: str,
        body: Mapping[str, Any],
        *,
        who: ReadOnlyCredentials | None = None,
        headers: Mapping[str, str] | None = None,
        tampered: bool = False,
    ) -> httpx2.Response:
        """Post JSON to the emulated AWS for a URL, such as a Function URL; its host is a header.

        It is unsigned without credentials; a tampered body was changed after signing.
        """
        payload = json.dumps(body).encode()
        all_headers = {"content-type": "application/json", **(headers or {})}
        signed = AWSRequest("POST", url, data=payload, headers=all_headers)
        if who is not None:
            SigV4Auth(who, "lambda", REGION).add_auth(signed)
        address = urlsplit(url)
        return httpx2.post(
            f"{self.url}{address.path}",
            content=payload.replace(b"e", b"a") if tampered else payload,
            headers={**signed.headers, "host": address.netloc},
            timeout=120,
            trust_env=False,
        )

    def variables(self) -> dict[str, str]:
        """Return the environment variables of a program that uses this AWS and no other."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": self.root.access_key,
            "AWS_SECRET_ACCESS_KEY": self.root.secret_key,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            # The user's own AWS configuration is not read.
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_DISABLE_CLI_TELEMETRY": "1",
            "NO_COLOR": "1",
            "CI": "1",
        }


# Creating a client reads megabytes of service models, so each is created once.
_session = cache(botocore.session.get_session)


@cache
def _client(url: str, service: str, who: ReadOnlyCredentials) -> Any:
    return _session().create_client(
        service,
        region_name=REGION,
        endpoint_url=url,
        aws_access_key_id=who.access_key,
        aws_secret_access_key=who.secret_key,
        aws_session_token=who.token,
    )


@contextmanager
def emulator(folder: Path, *, function_url: str) -> Iterator[Emulator]:
    """Run an emulated AWS until the block ends."""
    python, (port,) = pinned_environment("ministack", _PINS), free_ports(1)
    foreign = ("AWS_", "DOCKER_", "PYTHON")
    variables = {
        **{key: value for key, value in os.environ.items() if not key.startswith(foreign)},
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "STATE_DIR": str(folder / "state"),
        "S3_DATA_DIR": str(folder / "s3"),
        "TMPDIR": str(folder),
        "MINISTACK_ACCOUNT_ID": ACCOUNT,
        "MINISTACK_REGION": REGION,
        "AUTH": "true",
        "REHEARSAL_FUNCTION_PROXY": function_url,
    }
    with running(
        [str(python), str(_PLUGIN)],
        ready=partial(answers, f"http://localhost:{port}/_ministack/health"),
        seconds=_START_SECONDS,
        environment=variables,
        folder=folder,
        log=folder / "ministack.log",
    ):
        yield Emulator(port)
