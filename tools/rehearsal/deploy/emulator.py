"""An emulated AWS on this machine: MiniStack with our plugin, with signatures and policies checked.

One port serves every AWS API, the image registry and the Function URLs. With `AUTH`, MiniStack
checks signatures and policies, so a deploy succeeds only with the policies that the stacks and
bootstrap grant. An access key equal to an account's number is that account's root, without checks.
"""

import functools
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import botocore.session

__all__ = [
    "ACCOUNT",
    "Credentials",
    "Emulator",
    "emulator",
    "environment_of_ministack",
    "free_port",
]

ACCOUNT = "123456789012"
_ROOT = Path(__file__).parents[3]
_PINS = _ROOT / "tools" / "rehearsal" / "ministack.txt"
_PLUGIN = _ROOT / "tools" / "rehearsal" / "ministack" / "ministack_plugin.py"
_START_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """An access key, with a session token if it belongs to a role."""

    key: str
    secret: str
    token: str | None = None


@dataclass(frozen=True, kw_only=True)
class Emulator:
    """A running emulated AWS.

    Attributes:
        port: Its port on 127.0.0.1.
        account: The account.
        region: The region.
        records: The file in which the plugin records resources that MiniStack cannot create.
        log: Its log file.
    """

    port: int
    account: str
    region: str
    records: Path
    log: Path

    @property
    def url(self) -> str:
        """The endpoint of every API."""
        return f"http://localhost:{self.port}"

    @property
    def registry(self) -> str:
        """ECR's address, as AWS writes it."""
        return f"{self.account}.dkr.ecr.{self.region}.amazonaws.com"

    @property
    def root(self) -> Credentials:
        """The account's root, whose requests are not checked."""
        return Credentials(key=self.account, secret="test")  # noqa: S106  (not a real secret)

    def client(self, service: str, credentials: Credentials | None = None) -> Any:
        """Create a client of a service, with the root's credentials by default."""
        return _client(self.url, self.region, service, credentials or self.root)

    def assume(self, role_arn: str) -> Credentials:
        """Assume a role."""
        answer = self.client("sts").assume_role(RoleArn=role_arn, RoleSessionName="rehearsal")
        given = answer["Credentials"]
        return Credentials(
            key=given["AccessKeyId"], secret=given["SecretAccessKey"], token=given["SessionToken"]
        )

    def code_of(self, function: str, version: str = "$LATEST") -> bytes:
        """Download the deployed zip of a function."""
        found = self.client("lambda").get_function(FunctionName=function, Qualifier=version)
        # The address is signed for a host that only AWS has; the emulated AWS is here.
        address = urlsplit(found["Code"]["Location"])
        with urllib.request.urlopen(f"{self.url}{address.path}?{address.query}") as answer:
            return bytes(answer.read())

    def recorded(self, kind: str) -> list[dict[str, Any]]:
        """Read the recorded resources of a type, with their resolved properties."""
        records = json.loads(self.records.read_text()) if self.records.is_file() else {}
        return [record for record in records.values() if record["type"] == kind]

    def variables(self) -> dict[str, str]:
        """Return the environment variables of a program that uses this AWS and no other."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return {
            **kept,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": self.root.key,
            "AWS_SECRET_ACCESS_KEY": self.root.secret,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            # The user's own AWS configuration is not read.
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "CDK_DISABLE_CLI_TELEMETRY": "1",
            "NO_COLOR": "1",
            "CI": "1",
        }


# Creating a client reads megabytes of service models, so each is created once.
_session = functools.cache(botocore.session.get_session)


@functools.cache
def _client(url: str, region: str, service: str, who: Credentials) -> Any:
    return _session().create_client(
        service,
        region_name=region,
        endpoint_url=url,
        aws_access_key_id=who.key,
        aws_secret_access_key=who.secret,
        aws_session_token=who.token,
    )


@contextmanager
def emulator(
    folder: Path,
    *,
    region: str = "us-east-1",
    account: str = ACCOUNT,
    function_url: str | None = None,
) -> Iterator[Emulator]:
    """Run an emulated AWS until the block ends.

    Args:
        folder: An empty folder for its files.
        region: Its region.
        account: Its account.
        function_url: The address that receives functions' events; every invocation fails if None.
    """
    python = environment_of_ministack()
    port = free_port()
    variables = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "DOCKER_", "PYTHON"))},
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "STATE_DIR": str(folder / "state"),
        "S3_DATA_DIR": str(folder / "s3"),
        "TMPDIR": str(folder),
        "MINISTACK_ACCOUNT_ID": account,
        "MINISTACK_REGION": region,
        "AUTH": "true",
        "REHEARSAL_RECORDS": str(folder / "records.json"),
        **({"REHEARSAL_FUNCTION_PROXY": function_url} if function_url else {}),
    }
    running = Emulator(
        port=port,
        account=account,
        region=region,
        records=folder / "records.json",
        log=folder / "ministack.log",
    )
    with running.log.open("wb") as log:
        process = subprocess.Popen(
            [str(python), str(_PLUGIN)],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
        try:
            _wait(running, process)
            yield running
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def environment_of_ministack() -> Path:
    """Return the Python of MiniStack's virtual environment, created once for each set of pins."""
    folder = _ROOT / ".cache" / "ministack"
    stamp = folder / "stamp"
    wanted = f"{_PINS.read_text()}{sys.version}"
    python = folder / "bin" / "python"
    if not stamp.is_file() or stamp.read_text() != wanted:
        uv = Path(sys.executable).with_name("uv")
        environment = os.environ | {"UV_SYSTEM_CERTS": "1"}
        quiet = ["--quiet", "--no-config"]
        for command in (
            ["venv", *quiet, "--clear", "--python", sys.executable, str(folder)],
            ["pip", "install", *quiet, "--python", str(python), "--requirement", str(_PINS)],
        ):
            subprocess.run([str(uv), *command], check=True, env=environment)
        stamp.write_text(wanted)
    return python


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait(running: Emulator, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{running.url}/_ministack/health", timeout=2):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    log = running.log.read_text(errors="replace")[-3000:]
    raise RuntimeError(f"the emulated AWS did not start:\n{log}")
