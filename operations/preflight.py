"""Check before a deploy whether it would fail halfway.

It only reads. Without permission to read, it leaves the failure to the CDK.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from embedding_kit.programs import contract
from embedding_kit.settings import ApiGatewayFront, Encryption, Existing, Provisioned
from embedding_kit.settings.compatibility import needed_concurrency
from embedding_kit.settings.function import NEW_ACCOUNT_MEMORY_MB
from embedding_kit.settings.regions import check_region, region_notes
from operations.deployed import DeployedStack, find_deployed, read_stacks
from operations.environment_session import answer_or_none, read_account
from operations.packages import needed_targets
from stacks.environment import EnvironmentSettings
from stacks.key_policy import needed_statements
from stacks.names import (
    artifact_bucket_name,
    artifact_stack_name,
    endpoint_stack_name,
    front_stack_name,
    generated_prefix,
    has_bucket_stack,
    has_repository_stack,
    repository_name,
    repository_stack_name,
)

IMPORT = "--import-existing-resources"
#: An established account's default quota of concurrent executions; a new account has less.
#: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
_ESTABLISHED_CONCURRENCY = 1000
#: Seconds for Docker's answer. It has none if its daemon is on a machine that cannot be reached.
_DOCKER_SECONDS = 20
_PAGE = "docs/security.md"
#: What the function's role must be allowed: with tracing on all resources, and on the log group.
_TRACES = ("xray:PutTelemetryRecords", "xray:PutTraceSegments")
_LOGS = ("logs:CreateLogStream", "logs:PutLogEvents")


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact to report before a deploy; `stops` if the deploy would certainly fail."""

    text: str
    stops: bool = False


def report(findings: Iterable[Finding]) -> int:
    """Print the findings; return 1 if the deploy would fail, else 0."""
    stops = False
    for finding in findings:
        print(f"{'error' if finding.stops else 'note'}: {finding.text}", file=sys.stderr)
        stops |= finding.stops
    return int(stops)


def before_deploy(
    session: Session, environment: EnvironmentSettings, *, imports: bool, builds: bool = False
) -> Iterator[Finding]:
    """Yield the reasons why a deploy would fail, as far as they can be read.

    The deploy imports existing resources, and builds the images that it does not find, if told.
    """
    client = session.create_client("cloudformation", region_name=environment.region)
    for finding in check_place(session, environment):
        yield finding
        if finding.stops:
            return
    name = environment.name
    stacks: dict[str, DeployedStack] = {}
    try:
        stacks = {stack.name: stack for stack in read_stacks(client, environment)}
    except (BotoCoreError, ClientError) as error:
        yield Finding(f"the environment's stacks could not be looked up: {error}")
    else:
        yield from _stacks(session, environment, stacks, imports=imports)
    if builds:
        yield from _docker(environment, repository_stack_name(name) in stacks)
    yield from _readable("the account's quotas", _quotas(session, environment))
    if isinstance(environment.front, ApiGatewayFront):
        findings = _log_role(session, environment, environment.front)
        yield from _readable("API Gateway's role for logs", findings)
    if environment.encryption is not None:
        findings = check_key(session, environment, environment.encryption)
        yield from _readable("the key of [encryption]", findings)
    if environment.existing is not None:
        findings = check_existing(session, environment, environment.existing)
        yield from _readable("the resources of [existing]", findings)


def check_place(session: Session, environment: EnvironmentSettings) -> Iterator[Finding]:
    """Yield what the region lacks, or may lack; AWS is not asked."""
    region = environment.region or session.get_config_variable("region")
    features = environment.regional_features
    try:
        check_region(region, features)
    except ValueError as error:
        yield Finding(str(error), stops=True)
    yield from map(Finding, region_notes(region, features))


def _readable(what: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings, as far as AWS lets them be read."""
    try:
        yield from findings
    except (BotoCoreError, ClientError) as error:
        yield Finding(f"{what} could not be looked up: {error}")


def _stacks(
    session: Session,
    environment: EnvironmentSettings,
    stacks: Mapping[str, DeployedStack],
    *,
    imports: bool,
) -> Iterator[Finding]:
    """Check the stacks that are deployed, and what those that are not would meet."""
    for stack in stacks.values():
        reason = None if stack.is_removed else stack.refuses_updates(environment.name)
        if reason:
            yield Finding(reason, stops=True)
    if endpoint_stack_name(environment.name) in stacks:
        of_function = chain(_package(session, environment), check_role_change(session, environment))
        yield from _readable("the deployed function", of_function)
    # With the account in its file, the template has the bucket's name in plain text.
    imports_bucket = imports and environment.account is not None
    has_bucket = artifact_stack_name(environment.name) in stacks
    if has_bucket_stack(environment) and not imports_bucket and not has_bucket:
        yield from _readable("the bucket of artifacts", _artifact_bucket(session, environment))
    if has_repository_stack(environment):
        repository = stacks.get(repository_stack_name(environment.name))
        findings = _repository(session, environment, repository, imports=imports)
        yield from _readable("the image repository", findings)


def _docker(environment: EnvironmentSettings, has_repository: bool) -> Iterator[Finding]:
    """Look for the program that builds the images, before synth takes its time."""
    if not {"endpoint", "batch", "server"} & {*needed_targets(environment)}:
        return
    program = os.environ.get("CDK_DOCKER", "docker")
    try:
        subprocess.run(  # noqa: S603 - the program that the CDK's command runs
            [program, "version"], check=True, capture_output=True, timeout=_DOCKER_SECONDS
        )
    except subprocess.TimeoutExpired:
        yield Finding(
            f"{program} version did not answer within {_DOCKER_SECONDS} seconds, as while its "
            "daemon starts or the machine is busy; without a daemon the build of the image fails"
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error).encode()
        reason = said.decode(errors="replace").strip().splitlines()[-1:]
        yield Finding(
            f"the image is built by {program}; found: {' '.join(reason)}; allowed: Docker, and its "
            "daemon running, another program with its commands, which CDK_DOCKER names, such as "
            'podman or finch, or package = "zip" under [function] before the first deploy'
            + (". Only images that were pushed before can be deployed" if has_repository else ""),
            stops=not has_repository,
        )


def _quotas(session: Session, environment: EnvironmentSettings) -> Iterator[Finding]:
    function = environment.function
    client = session.create_client("lambda", region_name=environment.region)
    granted = client.get_account_settings()["AccountLimit"]["ConcurrentExecutions"]
    needed = needed_concurrency(function, environment.cold_start, environment.batch)
    if needed > granted:
        yield Finding(
            f"{environment.name} needs a quota of {needed} concurrent executions, of which Lambda "
            f"keeps 100 unreserved; found: {granted}; allowed: less reserved or provisioned "
            "concurrency, or a higher quota (Service Quotas, Lambda, Concurrent executions)",
            stops=True,
        )
    elif granted != function.account_concurrency:
        yield Finding(
            f"AWS grants {granted} concurrent executions here, and the environment assumes "
            f"{function.account_concurrency}: set account_concurrency = {granted} under "
            "[function], or the alarms on concurrency fire at the wrong number"
        )
    # No API returns the memory quota, but AWS raises it along with that of concurrency.
    if function.memory_mb > NEW_ACCOUNT_MEMORY_MB and granted < _ESTABLISHED_CONCURRENCY:
        yield Finding(
            f"{granted} concurrent executions are a new account's quota, and a new account may "
            f"allow a function {NEW_ACCOUNT_MEMORY_MB} MB: memory_mb = {function.memory_mb} may "
            "fail with \"'MemorySize' value failed to satisfy constraint\""
        )


def _log_role(
    session: Session, environment: EnvironmentSettings, front: ApiGatewayFront
) -> Iterator[Finding]:
    """Look up the account's role for API Gateway's logs, without which no stage can have a log."""
    client = session.create_client("apigateway", region_name=environment.region)
    role = client.get_account().get("cloudwatchRoleArn")
    stack = front_stack_name(environment.name)
    if not front.manage_log_role and not role:
        yield Finding(
            "API Gateway has no role for logs in this account and region, so the API's stage "
            "cannot be created; found: none; allowed: manage_log_role = true under [front] in one "
            "environment of the account and region, or a role in API Gateway's settings",
            stops=True,
        )
    elif front.manage_log_role and role and generated_prefix(stack) not in role:
        yield Finding(
            "manage_log_role replaces the role for API Gateway's logs that this account and "
            f"region have, {role}: remove manage_log_role to keep it"
        )


def _package(session: Session, environment: EnvironmentSettings) -> Iterator[Finding]:
    """Find a change of the package, which CloudFormation would make a function with another URL."""
    deployed = find_deployed(session, environment)
    if deployed is None:
        return
    handlers = {
        resource["Properties"].get("Handler")
        for resource in deployed.template()["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
    }
    # The function of an image has no handler: the image has a command.
    deployed_package = "zip" if contract().handlers["endpoint"] in handlers else "image"
    package = environment.function.package
    if deployed_package != package:
        yield Finding(
            f"AWS changes no function from {deployed_package} to {package}, and an alias has one "
            "function: the URL and the callers' permissions would be lost; found: package = "
            f'"{package}", deployed: "{deployed_package}"; allowed: package = '
            f'"{deployed_package}", or a second environment with package = "{package}" next '
            "to it, to which callers move (docs/operations.md)",
            stops=True,
        )


def _artifact_bucket(session: Session, environment: EnvironmentSettings) -> Iterator[Finding]:
    account = read_account(session, environment)
    client = session.create_client("s3", region_name=environment.region)
    owner = {"account": account, "region": client.meta.region_name}
    name = artifact_bucket_name(environment.name, **owner)
    if answer_or_none(client.head_bucket, Bucket=name) is None:
        return
    file = environment.file
    settings_first = (
        ""
        if environment.account
        else f'set account = "{owner["account"]}" and region = "{owner["region"]}" in {file}, '
        "because CloudFormation imports a bucket only by a name in plain text, and run "
    )
    yield Finding(
        f"the bucket {name} exists and belongs to no stack, as after a destroy, which retains it. "
        f"To use it again: {settings_first}scripts/deploy {environment.argument} {IMPORT}. To "
        f"deploy with a new one: aws s3 rb --force s3://{name}",
        stops=True,
    )


def _repository(
    session: Session,
    environment: EnvironmentSettings,
    stack: DeployedStack | None,
    *,
    imports: bool,
) -> Iterator[Finding]:
    """Find a repository without its stack, or a stack without its repository."""
    if stack is None and (imports or environment.removal_policy == "destroy"):
        return
    name = repository_name(environment.name)
    client = session.create_client("ecr", region_name=environment.region)
    repository = answer_or_none(client.describe_repositories, repositoryNames=[name])
    if repository is None and stack:
        yield _missing_repository(environment, stack)
    if repository and stack is None:
        yield Finding(
            f"the image repository {name} exists and belongs to no stack, as after a destroy "
            f"that retained it. To use it again: scripts/deploy {environment.argument} {IMPORT}",
            stops=True,
        )


def _missing_repository(environment: EnvironmentSettings, stack: DeployedStack) -> Finding:
    of_stack = f"--stack-name {stack.name}"
    unprotect = (
        "aws cloudformation update-termination-protection --no-enable-termination-protection "
        f"{of_stack} && "
        if stack.is_protected
        else ""
    )
    name = environment.name
    return Finding(
        f"the image repository {repository_name(name)} was deleted by other means, and "
        "CloudFormation does not notice; what serves now keeps working until Lambda needs its "
        f"image again. To make another: {unprotect}aws cloudformation delete-stack {of_stack} && "
        f"aws cloudformation wait stack-delete-complete {of_stack}, then "
        f"scripts/deploy {name} $(scripts/build {name} | sed s/^/--image=/), which deploys a new "
        "version",
        stops=True,
    )


def check_key(
    session: Session, environment: EnvironmentSettings, encryption: Encryption
) -> Iterator[Finding]:
    """Yield what is wrong with the key's policy, or the repository that would get the key.

    If the policy lacks a statement, a deploy fails halfway, or alarms notify no one and report no
    error.

    A key that is not there, or cannot be used, is named by AWS's own error.
    """
    key = encryption.key
    yield from _check_repository_key(session, environment, key)
    _, partition, _, region, owner, _ = key.split(":", 5)
    account = read_account(session, environment)
    if owner != account:
        yield Finding(
            f"the policy of the key {key} can be read in its own account only: it must have the "
            f"statements in {_PAGE}, for the account {account}"
        )
        return
    needed = needed_statements(environment, partition=partition, region=region, account=account)
    client = session.create_client("kms", region_name=environment.region)
    policy = client.get_key_policy(KeyId=key, PolicyName="default")["Policy"]
    for statement in unnamed(policy, needed):
        # Without that of IAM, the roles may be named one by one, by names that are not known yet.
        by_role = "AWS" in statement["Principal"]
        yield Finding(
            f"the policy of the key {key} lacks a statement ({_PAGE}): {json.dumps(statement)}"
            + (", unless it names each role" if by_role else ""),
            stops=not by_role,
        )


def _check_repository_key(
    session: Session, environment: EnvironmentSettings, key: str
) -> Iterator[Finding]:
    if not has_repository_stack(environment):
        return
    client = session.create_client("ecr", region_name=environment.region)
    name = repository_name(environment.name)
    answer = answer_or_none(client.describe_repositories, repositoryNames=[name])
    if answer is None:
        return
    (repository,) = answer["repositories"]
    encryption = repository.get("encryptionConfiguration", {})
    if encryption.get("kmsKey") != key:
        has = encryption.get("kmsKey") or encryption.get("encryptionType", "AES256")
        yield Finding(
            f"ECR cannot change how the repository {name} is encrypted; found: {has}; allowed: a "
            "repository of your own with the key, by repository under [existing], or another "
            f"environment ({_PAGE})",
            stops=True,
        )


def unnamed(policy: str, needed: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the needed statements if no statement of the policy names their service or account.

    Actions and conditions are not compared: AWS does that, and reports what it refuses.
    """
    statements = json.loads(policy).get("Statement", [])
    named = json.dumps(
        [granted.get("Principal") for granted in statements if granted["Effect"] == "Allow"]
    )
    return [
        statement
        for statement in needed
        if '"*"' not in named and _principal_name(statement["Principal"]) not in named
    ]


def _principal_name(principal: Mapping[str, str]) -> str:
    """Return a service, or the account of a role."""
    return principal.get("Service") or principal["AWS"].split(":")[4]


def check_existing(
    session: Session, environment: EnvironmentSettings, existing: Existing
) -> Iterator[Finding]:
    """Yield mistakes in existing resources that fail no deploy.

    A resource that is not there, or refuses the deploy, is named by AWS's own error.
    """
    if existing.bucket:
        yield from _expiring(
            session.create_client("s3", region_name=environment.region), existing.bucket
        )
    if existing.role:
        yield from _refused(session, environment, existing.role, existing.log_group)


def check_role_change(session: Session, environment: EnvironmentSettings) -> Iterator[Finding]:
    """Yield whether the deploy changes the function's role while two versions share the alias."""
    shares = (
        environment.release.in_steps
        or isinstance(environment.cold_start, Provisioned)
        or (environment.experiment is not None and environment.experiment.percent is not None)
    )
    deployed = find_deployed(session, environment) if shares else None
    if deployed is None:
        return
    client = session.create_client("lambda", region_name=environment.region)
    answer = client.get_function_configuration(
        FunctionName=deployed.function, Qualifier=deployed.alias
    )
    deployed_role = answer["Role"].partition(":role/")[2]
    file_role = environment.existing.role if environment.existing else None
    path = (environment.roles.path if environment.roles else None) or "/"
    changes = (
        deployed_role != file_role
        if file_role
        else f"/{deployed_role.rpartition('/')[0]}/".replace("//", "/") != path
    )
    if changes:
        yield Finding(
            "two versions that share an alias must have the same execution role; found: the role "
            f"{deployed_role} of the deployed version, and {file_role or f'a new one in {path}'} "
            'in the file; allowed: [release] kind = "all-at-once" for this deploy, without '
            "provisioned concurrency and weights, or the same role "
            "(docs/releases.md#another-execution-role)",
            stops=True,
        )


def _expiring(client: Any, name: str) -> Iterator[Finding]:
    rules = answer_or_none(client.get_bucket_lifecycle_configuration, Bucket=name) or {}
    expiring = [
        rule.get("ID", "without a name")
        for rule in rules.get("Rules", [])
        if rule["Status"] == "Enabled" and "Expiration" in rule
    ]
    if expiring:
        yield Finding(
            f"the bucket {name} has rules by which objects expire: {', '.join(expiring)}. None may "
            "delete what is under artifact/: Lambda downloads it again long after the deploy"
        )


def _refused(
    session: Session, environment: EnvironmentSettings, role: str, log_group: str | None
) -> Iterator[Finding]:
    """Yield the permissions that the role lacks for its logs and traces."""
    sts = session.create_client("sts", region_name=environment.region)
    identity = sts.get_caller_identity()
    partition = identity["Arn"].split(":")[1]
    account = environment.account or identity["Account"]
    groups = f"arn:{partition}:logs:{sts.meta.region_name}:{account}:log-group"
    permissions = [(_TRACES, "*")] if environment.observability.tracing else []
    if log_group:
        permissions.append((_LOGS, f"{groups}:{log_group}:*"))
    client = session.create_client("iam", region_name=environment.region)
    for actions, resource in permissions:
        results = client.simulate_principal_policy(
            PolicySourceArn=f"arn:{partition}:iam::{account}:role/{role}",
            ActionNames=list(actions),
            ResourceArns=[resource],
        )["EvaluationResults"]
        refused = [
            result["EvalActionName"] for result in results if result["EvalDecision"] != "allowed"
        ]
        if refused:
            yield Finding(
                f"the role {role} may not do {', '.join(refused)} on {resource}: the deploy "
                "succeeds, but there are no logs or traces, and alarms on metrics from the log "
                "stay silent. Its permissions: cdk.out/iam-policy-report.txt"
            )
