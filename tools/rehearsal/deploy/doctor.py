"""`embed doctor` on the emulated AWS, as a role with the policy of docs/doctor.md.

The checks run in this process, because the host of the deployed URL does not exist: requests to it
are sent to the emulated AWS.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from botocore.credentials import Credentials as BotocoreCredentials

from embedding_client._auth import SigV4Auth
from embedding_client._doctor.command import CHECKS, Checked, examine, run_check
from embedding_client._doctor.probes import Aws, Certificate, Probes, Web
from embedding_client._doctor.results import CheckResult
from embedding_client._doctor.snapshot import Question, Snapshot
from stacks.names import endpoint_stack_name
from tools.rehearsal.deploy.callers import make_role
from tools.rehearsal.deploy.emulator import Credentials, Emulator

__all__ = ["ROLE", "Doctor", "make_doctor"]

#: The name of each environment's role starts with it.
ROLE = "rehearsal-doctor"
_POLICY = "Doctor"
_PAGE = Path(__file__).parents[3] / "docs" / "doctor.md"
_CHECKS = {check.name: check for check in CHECKS}


@dataclass(frozen=True, kw_only=True)
class Doctor:
    """Looks at a deployed environment.

    Attributes:
        aws: The emulated AWS.
        environment: The environment's name.
        memory: A folder for the vector spaces of the last visit.
        who: The credentials.
        shift: How far its clock is ahead.
        resolve: How it finds the addresses of a host.
        certificate_days: For how long the URL's certificate is valid.
        asked: What it is asked to compare with.
        balancers: The names of load balancers, by the host that points to each.
    """

    aws: Emulator
    environment: str
    memory: Path
    who: Credentials
    shift: timedelta = timedelta()
    resolve: Callable[[str, int], list[str]] = lambda *_: ["192.0.2.1"]
    certificate_days: int = 365
    asked: dict[str, Any] = field(default_factory=dict)
    balancers: dict[str, str] = field(default_factory=dict)

    def examine(self) -> list[Checked]:
        """Run all checks."""
        with self._client() as http:
            return list(examine(self._snapshot(http)))

    def check(self, name: str) -> CheckResult:
        """Run one check."""
        with self._client() as http:
            return run_check(_CHECKS[name], self._snapshot(http))

    def asking(self, **asked: Any) -> "Doctor":
        """Return a doctor that compares with something."""
        return replace(self, asked=asked)

    @contextmanager
    def without(self, *actions: str) -> Iterator[None]:
        """Take some actions out of the role's policy."""
        _allow(self.aws, self.environment, without=actions)
        try:
            yield
        finally:
            _allow(self.aws, self.environment)

    def _client(self) -> httpx.Client:
        return httpx.Client(transport=_ToEmulator(self.aws.port, self.balancers), timeout=60)

    def _snapshot(self, http: httpx.Client) -> Snapshot:
        keys = BotocoreCredentials(self.who.key, self.who.secret, self.who.token)
        now = datetime.now(UTC) + self.shift
        expires = now + timedelta(days=self.certificate_days)
        return Snapshot(
            Question(**{"environment": self.environment} | self.asked),
            Probes(
                aws=Aws(lambda service: self.aws.client(service, self.who)),
                web=Web(http, SigV4Auth(credentials=keys, region=self.aws.region)),
                resolve=self.resolve,
                handshake=lambda *_: Certificate("TLSv1.3", expires),
                region=self.aws.region,
                memory=self.memory,
                now=lambda: now,
            ),
        )


def make_doctor(aws: Emulator, environment: str, *, memory: Path) -> Doctor:
    """Create the role, and return a doctor with its credentials."""
    role = make_role(aws, _role(environment))
    _allow(aws, environment)
    return Doctor(aws=aws, environment=environment, memory=memory, who=aws.assume(role))


def _allow(aws: Emulator, environment: str, *, without: tuple[str, ...] = ()) -> None:
    """Attach the documented policy to the role."""
    (block,) = re.findall(r"```json\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    stack = endpoint_stack_name(environment)
    (found,) = aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in found["Outputs"]}
    words = {
        "REGION": aws.region,
        "ACCOUNT": aws.account,
        "NAME": environment,
        "SHORT": environment[:12],
        "ALIAS_ARN": outputs["AliasArn"],
        "CALLER": _role(environment),
    }
    for word, value in words.items():
        block = re.sub(rf"\b{word}\b", value, block)
    policy = json.loads(block)
    for statement in policy["Statement"]:
        actions = statement["Action"]
        listed = [actions] if isinstance(actions, str) else actions
        # A statement must have an action.
        statement["Action"] = [name for name in listed if name not in without] or ["none:None"]
    aws.client("iam").put_role_policy(
        RoleName=_role(environment), PolicyName=_POLICY, PolicyDocument=json.dumps(policy)
    )


def _role(environment: str) -> str:
    return f"{ROLE}-{environment}"


class _ToEmulator(httpx.BaseTransport):
    """Sends requests to the emulated AWS, with the header of the host that they are for."""

    def __init__(self, port: int, balancers: Mapping[str, str]) -> None:
        self._port = port
        self._balancers = balancers
        self._transport = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        path = request.url.raw_path.decode("ascii")
        if request.url.host in self._balancers:
            path = f"/_alb/{self._balancers[request.url.host]}{path}"
        sent = httpx.Request(
            request.method,
            f"http://127.0.0.1:{self._port}{path}",
            headers=request.headers,
            content=request.read(),
        )
        return self._transport.handle_request(sent)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()
