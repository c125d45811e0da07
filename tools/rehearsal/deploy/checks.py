"""Checks of a deployed environment: answers, a changed code, other parts, the doctor, leftovers.

The doctor's checks run in this process as a role with the policy of docs/security.md. The host of
the deployed URL does not exist: requests to it are sent to the emulated AWS.
"""

import dataclasses
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from embedding_client import SigV4Auth
from embedding_client.doctor import CheckResult, State
from embedding_client.doctor.command import examine
from embedding_client.doctor.probes import Aws, Web
from embedding_client.doctor.snapshot import DoctorOptions, Snapshot
from stacks.environment_file import load_environment
from stacks.names import batch_stack_name, endpoint_stack_name, front_stack_name
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
    result = f"{allowed.status_code}, {size} numbers"
    report.check("the allowed role gets 200 and a vector", size > 0, result)
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
    result = f"version {before.version} to {after.version}, of {after.versions}"
    report.check(check, newer and after.image != before.image, result)


@dataclasses.dataclass(frozen=True)
class DeployedRelease:
    """The alias's version, others' weights, all versions, its image, its URL, and the stack."""

    version: str
    weights: dict[str, float]
    versions: list[str]
    image: str
    url: str
    stack: str


def read_release(cdk: Cdk) -> DeployedRelease:
    """Read what is deployed."""
    client = cdk.aws.client("lambda")
    function, _, name = cdk.outputs()["AliasArn"].rpartition(":")
    alias = client.get_alias(FunctionName=function, Name=name)
    version = alias["FunctionVersion"]
    listed = client.list_versions_by_function(FunctionName=function)["Versions"]
    (stack,) = cdk.aws.client("cloudformation").describe_stacks(
        StackName=endpoint_stack_name(cdk.checkout.environment)
    )["Stacks"]
    return DeployedRelease(
        version,
        alias.get("RoutingConfig", {}).get("AdditionalVersionWeights", {}),
        [
            function_version["Version"]
            for function_version in listed
            if function_version["Version"] != "$LATEST"
        ],
        client.get_function(FunctionName=function, Qualifier=version)["Code"]["ImageUri"],
        client.get_function_url_config(FunctionName=function, Qualifier=name)["FunctionUrl"],
        stack["StackStatus"],
    )


_BUCKETS = ("rehearsal-documents", "rehearsal-vectors")
_SOURCE, _DESTINATION = (f"s3://{bucket}/batch/" for bucket in _BUCKETS)
#: The settings of `[batch]` and of `[front]`.
BATCH_SETTINGS = {"input": _SOURCE, "output": _DESTINATION, "max_concurrency": 2}
FRONT_SETTINGS: dict[str, Any] = {
    "callers": [{"name": "rehearsal", "rate": 10, "burst": 10}],
    "firewall": {"requests_per_five_minutes": 1000},
}
_NETWORK = "10.0.0.0/16"
_KEY_LINE = f"rehearsal:{hashlib.sha256(b'a key').hexdigest()}"


def make_network(aws: Emulator, *, lines: str = _KEY_LINE) -> dict[str, Any]:
    """Create what exists before a server's stack; return the settings of `[server]`."""
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock=_NETWORK)["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/24")["Subnet"]["SubnetId"]
        for number in (1, 2)
    ]
    secret = aws.client("secretsmanager").create_secret(Name="embedding-keys", SecretString=lines)
    return {
        "vpc": vpc,
        "subnets": subnets,
        "clients": [_NETWORK],
        "certificate": f"arn:aws:acm:{aws.region}:{aws.account}:certificate/1234abcd",
        "domain_name": "embeddings.example.com",
        "keys_secret": secret["ARN"],
        "maximum": 4,
    }


def set_log_role(aws: Emulator) -> None:
    """Set the account's role for API Gateway's logs, without which scripts/deploy stops."""
    role = f"arn:aws:iam::{aws.account}:role/rehearsal-logs"
    change = {"op": "replace", "path": "/cloudwatchRoleArn", "value": role}
    aws.client("apigateway").update_account(patchOperations=[change])


def check_front(cdk: Cdk, url: str) -> None:
    """Send requests to the deployed API, with its key and without one."""
    aws, name = cdk.aws, cdk.checkout.environment
    listed = aws.client("cloudformation").list_stack_resources(StackName=front_stack_name(name))
    (api,) = (
        item["PhysicalResourceId"]
        for item in listed["StackResourceSummaries"]
        if item["ResourceType"] == "AWS::ApiGateway::RestApi"
    )
    keys = aws.client("apigateway").get_api_keys(
        nameQuery=f"embedding-kit-{name}-rehearsal-", includeValues=True
    )
    (key,) = (item["value"] for item in keys["items"])
    address = f"{aws.url}/_aws/execute-api/{api}/live/"
    with cdk.report.step("calling the API in front with its key, and without one"):
        answer = aws.post(address, _BODY, headers={"x-api-key": key})
        refused = aws.post(address, _BODY)
        by_url = ask(aws, url)
    check = "a request with a key gets the vector of the Function URL, to the last bit"
    cdk.report.check(check, same_vector(answer, by_url), answer.status_code)
    check = "one without a key gets 401"
    cdk.report.check(check, refused.status_code == 401, refused.status_code)


def check_batch(cdk: Cdk) -> None:
    """Start a job with the client, follow it, and resume it."""
    s3 = cdk.aws.client("s3")
    for bucket in _BUCKETS:
        s3.create_bucket(Bucket=bucket)
    lines = [json.dumps({"key": f"a{n}", "body": f"line {n}"}) for n in range(19)]
    rejected = json.dumps({"key": "none", "body": ""})
    s3.put_object(Bucket=_BUCKETS[0], Key="batch/a.jsonl", Body="\n".join([*lines, rejected]))
    cells = "\n".join(f'b{n},"cell {n}"' for n in range(20))
    s3.put_object(Bucket=_BUCKETS[0], Key="batch/b.csv", Body=f"key,body\n{cells}")
    machine = cdk.aws.outputs(batch_stack_name(cdk.checkout.environment))["StateMachineArn"]
    variables = cdk.aws.variables() | {"EMBEDDING_BATCH": machine}

    def run(*arguments: str) -> str:
        command = [str(Path(sys.executable).with_name("embed")), "batch", *arguments]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        cdk.report.need(f"embed batch {arguments[0]} succeeds", not done.returncode, done.stderr)
        return done.stdout.strip()

    with cdk.report.step("embed batch: start, follow and resume a job"):
        columns = ("--text", "body", "--id", "key", "--max-rejected-percent", "5")
        job = run("start", _SOURCE, _DESTINATION, *columns)
        status = json.loads(run("status", job, "--follow", "--json"))
        status_after_resume = json.loads(run("status", run("resume", job), "--follow", "--json"))
    result, progress = status["result"] or {}, status["progress"] or {}
    counts = [report.get(name) for report in (result, progress) for name in ("rows", "rejected")]
    check = "the job embeds 39 rows and rejects one, and its status adds them up with a cost"
    cdk.report.check(check, counts == [39, 1, 39, 1] and progress["cost"] > 0, counts)
    same = (
        status_after_resume["result"] == result
        and status_after_resume["progress"]["cost"] == progress["cost"]
    )
    cdk.report.check("resumed, it embeds no shard again", same, status_after_resume["state"])


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
    result = "; ".join(f"{name} {results[name].state}: {results[name].found}" for name in wanted)
    holds = all(results[name].state == state for name, state in wanted.items())
    cdk.report.check(f"the doctor finds it by {', '.join(wanted)}", holds, result)


def _examine(cdk: Cdk, folder: Path) -> dict[str, CheckResult]:
    """Run all checks; return their results by name."""
    aws, environment = cdk.aws, cdk.checkout.environment
    who = aws.assume(_role(aws, environment))
    with (
        cdk.report.step(f"embed doctor {environment}"),
        httpx2.Client(transport=ToEmulator(aws.port), timeout=60) as http,
    ):
        snapshot = Snapshot(
            options=DoctorOptions(environment=environment),
            aws=Aws(lambda service: aws.client(service, who)),
            web=Web(http, SigV4Auth(credentials=Credentials(*who[:3]), region=aws.region)),
            region=aws.region,
            memory=folder / f"spaces-{environment}.json",
            clock=lambda: datetime.now(UTC),
        )
        return {line.check.name: line.result for line in examine(snapshot)}


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


class ToEmulator(httpx2.HTTPTransport):
    """Sends requests to the emulated AWS, with the header of the host that they are for."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._base = f"http://127.0.0.1:{port}"

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        url, content = f"{self._base}{request.url.raw_path.decode('ascii')}", request.read()
        sent = httpx2.Request(request.method, url, headers=request.headers, content=content)
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
    leftovers: Leftovers = set()
    for resource_type, (service, operation, key, name, arguments) in _LISTED.items():
        listed = getattr(aws.client(service), operation)(**arguments).get(key, [])
        leftovers |= {(resource_type, str(item[name] if name else item)) for item in listed}
    kms = aws.client("kms")
    described = [kms.describe_key(KeyId=k["KeyId"])["KeyMetadata"] for k in kms.list_keys()["Keys"]]
    # AWS bills neither its own keys nor those that are scheduled for deletion.
    billed = [k for k in described if k.get("KeyManager") != "AWS"]
    return leftovers | {("key", k["KeyId"]) for k in billed if k["KeyState"] != "PendingDeletion"}


def check_destroyed(cdk: Cdk, before: Leftovers) -> None:
    """Check that nothing is left that was not there before, except what the environment retains."""
    environment = load_environment(cdk.checkout.environment, folder=cdk.checkout.file.parent)
    retained = {"repository", "log group"} if environment.removal_policy == "retain" else set()
    after = list_resources(cdk.aws) - before
    leftovers = sorted(
        (resource_type, name) for resource_type, name in after if not name.startswith(_OURS)
    )
    cdk.report.check(
        f"only what the environment retains is left: {', '.join(sorted(retained)) or 'nothing'}",
        {resource_type for resource_type, _ in leftovers} == retained,
        ", ".join(name for _, name in leftovers),
    )
