"""Checks of a deployed environment: who gets an answer, a changed code, the doctor, what is left.

The doctor's checks run in this process as a role with the policy of docs/security.md. The host of
the deployed URL does not exist: requests to it are sent to the emulated AWS.
"""

import dataclasses
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from embedding_client._auth import SigV4Auth
from embedding_client._doctor import CheckResult, State
from embedding_client._doctor.command import examine
from embedding_client._doctor.probes import Aws, Web
from embedding_client._doctor.snapshot import Question, Snapshot
from embedding_kit.environment_file import load_environment
from stacks.names import endpoint_stack_name
from tools.rehearsal.deploy.cdk import Cdk
from tools.rehearsal.deploy.deployed_functions import FunctionServer
from tools.rehearsal.deploy.emulator import ACCOUNT, Emulator

#: The roles of a caller, and of somebody else in the account.
CALLER, STRANGER = "rehearsal-caller", "rehearsal-stranger"
_BODY = {"text": "hello, embedding"}


def ask(aws: Emulator, url: str, text: str = _BODY["text"]) -> Any:
    """Send a text to a Function URL, signed by the caller; return the response."""
    return aws.post(url, {"text": text}, who=aws.assume(CALLER))


def same_vector(one: Any, other: Any) -> bool:
    """Return whether two responses have the same vector, to the last bit, and the same space."""
    return one.status_code == other.status_code == 200 and all(
        one.json()[name] == other.json()[name] for name in ("embedding", "vector_space")
    )


def check_answers(cdk: Cdk, function: FunctionServer) -> None:
    """Call the endpoint as an allowed role, as another role, and without a signature."""
    report, aws, deployed = cdk.report, cdk.aws, cdk.outputs()
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
    before = read_release(cdk)
    cdk.checkout.change_code()
    changed = cdk.diff("with changed code")
    gone = changed.count(r"(?m)^\[-\] AWS::(?!Lambda::Version)")
    check = "it finds the change, and removes no resource except the old version's"
    report.check(check, changed.status == 1 and not gone, changed.last())
    # With the assembly of the diff, which saves another synth.
    cdk.succeeded(cdk.deploy("with changed code", assembly=cdk.assembly))
    after = read_release(cdk)
    report.check("the URL is the same", before.url == after.url)
    check = "a new version runs another image, and the old version still exists"
    newer = int(after.version) > int(before.version) and before.version in after.versions
    found = f"version {before.version} to {after.version}, of {after.versions}"
    report.check(check, newer and after.image != before.image, found)


@dataclasses.dataclass(frozen=True)
class Release:
    """The alias's version, others' weights, all versions, its image, its URL, and the stack."""

    version: str
    weights: dict[str, float]
    versions: list[str]
    image: str
    url: str
    stack: str


def read_release(cdk: Cdk) -> Release:
    """Read what is deployed."""
    client = cdk.aws.client("lambda")
    function, _, name = cdk.outputs()["AliasArn"].rpartition(":")
    alias = client.get_alias(FunctionName=function, Name=name)
    version = alias["FunctionVersion"]
    listed = client.list_versions_by_function(FunctionName=function)["Versions"]
    (stack,) = cdk.aws.client("cloudformation").describe_stacks(
        StackName=endpoint_stack_name(cdk.checkout.environment)
    )["Stacks"]
    return Release(
        version,
        alias.get("RoutingConfig", {}).get("AdditionalVersionWeights", {}),
        [found["Version"] for found in listed if found["Version"] != "$LATEST"],
        client.get_function(FunctionName=function, Qualifier=version)["Code"]["ImageUri"],
        client.get_function_url_config(FunctionName=function, Qualifier=name)["FunctionUrl"],
        stack["StackStatus"],
    )


_PAGE = Path(__file__).parents[3] / "docs" / "security.md"
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
        snapshot = Snapshot(
            asked=Question(environment=environment),
            aws=Aws(lambda service: aws.client(service, who)),
            web=Web(http, SigV4Auth(credentials=Credentials(*who[:3]), region=aws.region)),
            region=aws.region,
            memory=folder / f"spaces-{environment}.json",
            now=lambda: datetime.now(UTC),
        )
        return {each.check.name: each.result for each in examine(snapshot)}


def _role(aws: Emulator, environment: str) -> str:
    """Return the environment's role with the documented policy, and create it at first."""
    name, iam = f"rehearsal-doctor-{environment}", aws.client("iam")
    if name in {role["RoleName"] for role in iam.list_roles()["Roles"]}:
        return name
    aws.make_role(name)
    section = _PAGE.read_text().partition("\n## The doctor's policy\n")[2]
    block = re.findall(r"```json\n(.*?)```", section, re.DOTALL)[0]
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


class ToEmulator(httpx.HTTPTransport):
    """Sends requests to the emulated AWS, with the header of the host that they are for."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._base = f"http://127.0.0.1:{port}"

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        url, content = f"{self._base}{request.url.raw_path.decode('ascii')}", request.read()
        sent = httpx.Request(request.method, url, headers=request.headers, content=content)
        return super().handle_request(sent)


#: The kind and the name of each resource that could be billed.
Leftovers = set[tuple[str, str]]

_SCALING, _LAMBDA = "application-autoscaling", {"ServiceNamespace": "lambda"}
_COMPOSITE = {"AlarmTypes": ["CompositeAlarm"]}
#: Each kind: service, operation, list in the response, name, and the operation's arguments.
_LISTED: dict[str, tuple[str, str, str, str, dict[str, Any]]] = {
    "stack": ("cloudformation", "describe_stacks", "Stacks", "StackName", {}),
    "function": ("lambda", "list_functions", "Functions", "FunctionName", {}),
    "capacity": (_SCALING, "describe_scalable_targets", "ScalableTargets", "ResourceId", _LAMBDA),
    "log group": ("logs", "describe_log_groups", "logGroups", "logGroupName", {}),
    "alarm": ("cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName", {}),
    "page": ("cloudwatch", "describe_alarms", "CompositeAlarms", "AlarmName", _COMPOSITE),
    "dashboard": ("cloudwatch", "list_dashboards", "DashboardEntries", "DashboardName", {}),
    "balancer": ("elbv2", "describe_load_balancers", "LoadBalancers", "LoadBalancerName", {}),
    "cluster": ("ecs", "list_clusters", "clusterArns", "", {}),
    "API": ("apigateway", "get_rest_apis", "items", "name", {}),
    "API key": ("apigateway", "get_api_keys", "items", "name", {}),
    "web ACL": ("wafv2", "list_web_acls", "WebACLs", "Name", {"Scope": "REGIONAL"}),
    "state machine": ("stepfunctions", "list_state_machines", "stateMachines", "name", {}),
    "bucket": ("s3", "list_buckets", "Buckets", "Name", {}),
    "secret": ("secretsmanager", "list_secrets", "SecretList", "Name", {}),
    "topic": ("sns", "list_topics", "Topics", "TopicArn", {}),
    "role": ("iam", "list_roles", "Roles", "RoleName", {}),
    "repository": ("ecr", "describe_repositories", "repositories", "repositoryName", {}),
    "budget": ("budgets", "describe_budgets", "Budgets", "BudgetName", {"AccountId": ACCOUNT}),
}
#: The names of what the rehearsal itself creates on the way.
_OURS = "rehearsal-"


def list_resources(aws: Emulator) -> Leftovers:
    """List the resources of each kind that could be billed."""
    found: Leftovers = set()
    for kind, (service, operation, key, name, arguments) in _LISTED.items():
        listed = getattr(aws.client(service), operation)(**arguments).get(key, [])
        found |= {(kind, str(item[name] if name else item)) for item in listed}
    kms = aws.client("kms")
    described = [kms.describe_key(KeyId=k["KeyId"])["KeyMetadata"] for k in kms.list_keys()["Keys"]]
    # AWS bills neither its own keys nor those that are scheduled for deletion.
    billed = [k for k in described if k.get("KeyManager") != "AWS"]
    return found | {("key", k["KeyId"]) for k in billed if k["KeyState"] != "PendingDeletion"}


def check_destroyed(cdk: Cdk, before: Leftovers) -> None:
    """Check that nothing is left that was not there before, except what the environment retains."""
    environment = load_environment(cdk.checkout.environment, folder=cdk.checkout.file.parent)
    retained = {"repository", "log group"} if environment.removal_policy == "retain" else set()
    after = list_resources(cdk.aws) - before
    left = sorted((kind, name) for kind, name in after if not name.startswith(_OURS))
    cdk.report.check(
        f"only what the environment retains is left: {', '.join(sorted(retained)) or 'nothing'}",
        {kind for kind, _ in left} == retained,
        ", ".join(name for _, name in left),
    )
