"""`embed doctor` on the emulated AWS, as a role with the policy of docs/doctor.md.

The checks run in this process, because the host of the deployed URL does not exist: requests to it
are sent to the emulated AWS.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import httpx
from botocore.credentials import Credentials

from embedding_client._auth import SigV4Auth
from embedding_client._doctor.command import examine
from embedding_client._doctor.probes import Aws, Probes, Web
from embedding_client._doctor.results import CheckResult, State
from embedding_client._doctor.snapshot import Question, Snapshot
from stacks.names import endpoint_stack_name
from tools.rehearsal.deploy.cdk import Cdk
from tools.rehearsal.deploy.emulator import Emulator

_PAGE = Path(__file__).parents[3] / "docs" / "doctor.md"
#: The checks that warn here: alarms have no data yet, no address is confirmed, and nothing scales.
_EXPECTED = {"alarms", "subscribers", "provisioned"}


def check_health(cdk: Cdk, folder: Path) -> None:
    """Check that no check fails, and that none is skipped for a missing permission."""
    # A metric of the platform, which AWS would publish.
    namespace = f"EmbeddingKit/{cdk.checkout.environment}"
    memory = {"MetricName": "MaxMemoryUsed", "Value": 200, "Timestamp": datetime.now(UTC)}
    cdk.aws.client("cloudwatch").put_metric_data(Namespace=namespace, MetricData=[memory])
    results = _examine(cdk, folder)
    troubled = [
        f"{name}: {result.found}"
        for name, result in results.items()
        if result.state == State.FAILED
        or (result.state == State.WARNING and name not in _EXPECTED)
        or "no permission" in result.found
    ]
    check = f"no check of {len(results)} fails, and none lacks a permission"
    cdk.report.check(check, not troubled, "; ".join(troubled))


def check_illness(cdk: Cdk, folder: Path, wanted: Mapping[str, State]) -> None:
    """Check the states of some checks, by their names."""
    results = _examine(cdk, folder)
    found = "; ".join(f"{name} {results[name].state}: {results[name].found}" for name in wanted)
    holds = all(results[name].state == state for name, state in wanted.items())
    cdk.report.check(f"the doctor finds it by {', '.join(wanted)}", holds, found)


def _examine(cdk: Cdk, folder: Path) -> dict[str, CheckResult]:
    """Run all checks; return their results by name."""
    aws, environment = cdk.aws, cdk.checkout.environment
    who = aws.assume(_role(aws, environment))
    with (
        cdk.report.step(f"embed doctor {environment}"),
        httpx.Client(transport=ToEmulator(aws.port), timeout=60) as http,
    ):
        probes = Probes(
            aws=Aws(lambda service: aws.client(service, who)),
            web=Web(http, SigV4Auth(credentials=Credentials(*who[:3]), region=aws.region)),
            region=aws.region,
            memory=folder / f"spaces-{environment}.json",
            now=lambda: datetime.now(UTC),
        )
        checked = examine(Snapshot(Question(environment=environment), probes))
        return {each.check.name: each.result for each in checked}


def _role(aws: Emulator, environment: str) -> str:
    """Return the environment's role with the documented policy, and create it at first."""
    name, iam = f"rehearsal-doctor-{environment}", aws.client("iam")
    if name in {role["RoleName"] for role in iam.list_roles()["Roles"]}:
        return name
    aws.make_role(name)
    (block,) = re.findall(r"```json\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    words = {
        "REGION": aws.region,
        "ACCOUNT": aws.account,
        "NAME": environment,
        "SHORT": environment[:12],
        "ALIAS_ARN": aws.outputs(endpoint_stack_name(environment))["AliasArn"],
        "CALLER": name,
    }
    for word, value in words.items():
        block = re.sub(rf"\b{word}\b", value, block)
    document = json.dumps(json.loads(block))
    iam.put_role_policy(RoleName=name, PolicyName="Doctor", PolicyDocument=document)
    return name


class ToEmulator(httpx.BaseTransport):
    """Sends requests to the emulated AWS, with the header of the host that they are for."""

    def __init__(self, port: int) -> None:
        self._base, self._transport = f"http://127.0.0.1:{port}", httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        sent = httpx.Request(
            request.method,
            f"{self._base}{request.url.raw_path.decode('ascii')}",
            headers=request.headers,
            content=request.read(),
        )
        return self._transport.handle_request(sent)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()
