"""Check before a deploy what an account prescribes: its key, its roles, existing resources.

Without the permission of a key, a deploy fails halfway, or alarms notify no one and report no
error.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.session import Session

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.key_policy import needed_statements
from embedding_kit.publishing import bucket_statements, repository_statements
from embedding_kit.settings import Encryption, Existing, Provisioned
from operations.deployed import find_deployed
from operations.environment_session import look_up
from stacks.names import bootstrap_qualifier, has_repository_stack, repository_name


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact to report before a deploy; `stops` if the deploy would certainly fail."""

    text: str
    stops: bool = False


def check_key(
    session: Session, environment: EnvironmentSettings, encryption: Encryption
) -> Iterator[Finding]:
    """Yield what is wrong with the key, its policy, or the repository that would get it."""
    client = session.create_client("kms", region_name=environment.region)
    region = client.meta.region_name
    if region != encryption.region:
        yield Finding(
            f"AWS services use a key of their own region only; found: encryption.key in "
            f"{encryption.region}, and a deploy to {region}; allowed: a key in {region}",
            stops=True,
        )
        return
    described = look_up(client.describe_key, KeyId=encryption.key)
    if described is None:
        yield Finding(
            f"there is no KMS key {encryption.key}; allowed: the ARN of a key in {region}",
            stops=True,
        )
        return
    yield from _usable(described["KeyMetadata"], encryption.key)
    yield from _check_repository_key(session, environment, encryption.key)
    yield from _check_key_policy(client, session, environment, encryption.key)


def _usable(metadata: Mapping[str, Any], key: str) -> Iterator[Finding]:
    wanted = {
        "KeyState": "Enabled",
        "KeySpec": "SYMMETRIC_DEFAULT",
        "KeyUsage": "ENCRYPT_DECRYPT",
    }
    found = {name: metadata.get(name, value) for name, value in wanted.items()}
    if found != wanted:
        yield Finding(
            f"AWS services cannot use the key {key}; found: {', '.join(found.values())}; allowed: "
            f"{', '.join(wanted.values())}",
            stops=True,
        )


def _check_repository_key(
    session: Session, environment: EnvironmentSettings, key: str
) -> Iterator[Finding]:
    if not has_repository_stack(environment):
        return
    client = session.create_client("ecr", region_name=environment.region)
    name = repository_name(environment.name)
    answer = look_up(client.describe_repositories, repositoryNames=[name])
    if answer is None:
        return
    (found,) = answer["repositories"]
    encryption = found.get("encryptionConfiguration", {})
    if encryption.get("kmsKey") != key:
        has = encryption.get("kmsKey") or encryption.get("encryptionType", "AES256")
        yield Finding(
            f"ECR cannot change how the repository {name} is encrypted; found: {has}; allowed: a "
            "repository of your own with the key, by repository under [existing], or another "
            f"environment ({_PAGE})",
            stops=True,
        )


def _check_key_policy(
    client: Any, session: Session, environment: EnvironmentSettings, key: str
) -> Iterator[Finding]:
    _, partition, _, region, owner, _ = key.split(":", 5)
    account = environment.account
    if account is None:
        sts = session.create_client("sts", region_name=environment.region)
        account = sts.get_caller_identity()["Account"]
    if owner != account:
        yield Finding(
            f"the policy of the key {key} can be read in its own account only: it must have the "
            f"statements in {_PAGE}, for the account {account}"
        )
        return
    needed = needed_statements(environment, partition=partition, region=region, account=account)
    policy = client.get_key_policy(KeyId=key, PolicyName="default")["Policy"]
    for statement in unnamed(policy, needed):
        # Without that of IAM, the roles may be named one by one, by names that are not known yet.
        by_role = "AWS" in statement["Principal"]
        yield Finding(
            f"the policy of the key {key} lacks a statement ({_PAGE}): {json.dumps(statement)}"
            + (", unless it names each role" if by_role else ""),
            stops=not by_role,
        )


def unnamed(policy: str, needed: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the needed statements if no statement of the policy names their service or account.

    Actions and conditions are not compared: AWS does that, and reports what it refuses.
    """
    statements = json.loads(policy).get("Statement", [])
    named = json.dumps([one.get("Principal") for one in statements if one["Effect"] == "Allow"])
    return [
        statement
        for statement in needed
        if '"*"' not in named and _who(statement["Principal"]) not in named
    ]


def _who(principal: Mapping[str, str]) -> str:
    """Return a service, or the account of a role."""
    return principal.get("Service") or principal["AWS"].split(":")[4]


_PAGE = "docs/security.md"
#: What the role must be allowed: with tracing on all resources, and on the log group.
_TRACES = ("xray:PutTelemetryRecords", "xray:PutTraceSegments")
_LOGS = ("logs:CreateLogStream", "logs:PutLogEvents")


def check_existing(
    session: Session, environment: EnvironmentSettings, existing: Existing
) -> Iterator[Finding]:
    """Yield which existing resources are not there, or refuse what the kit does with them."""
    region = environment.region
    account = environment.account
    sts = session.create_client("sts", region_name=region)
    identity = sts.get_caller_identity()
    place = {
        "partition": identity["Arn"].split(":")[1],
        "region": sts.meta.region_name,
        "account": account or identity["Account"],
    }
    if existing.repository:
        client = session.create_client("ecr", region_name=region)
        yield from _repository(client, existing.repository, place)
    if existing.bucket:
        client = session.create_client("s3", region_name=region)
        yield from _bucket(client, existing.bucket, place)
    if existing.log_group:
        client = session.create_client("logs", region_name=region)
        yield from _log_group(client, existing.log_group)
    if existing.role:
        client = session.create_client("iam", region_name=region)
        traced = environment.observability.tracing
        yield from _role(client, existing.role, existing.log_group, place, traced=traced)


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
    found = answer["Role"].partition(":role/")[2]
    wanted = environment.existing.role if environment.existing else None
    path = (environment.roles.path if environment.roles else None) or "/"
    changes = (
        found != wanted if wanted else f"/{found.rpartition('/')[0]}/".replace("//", "/") != path
    )
    if changes:
        yield Finding(
            "two versions that share an alias must have the same execution role; found: the role "
            f"{found} of the deployed version, and {wanted or f'a new one in {path}'} in the "
            'file; allowed: [release] kind = "all-at-once" for this deploy, without provisioned '
            "concurrency and weights, or the same role (docs/releases.md#another-execution-role)",
            stops=True,
        )


def _repository(client: Any, name: str, place: Mapping[str, str]) -> Iterator[Finding]:
    found = look_up(client.describe_repositories, repositoryNames=[name])
    if found is None:
        yield _absent("repository", name, place)
        return
    answer = look_up(client.get_repository_policy, repositoryName=name)
    policy = answer["policyText"] if answer else "{}"
    needed = repository_statements(**place, qualifier=bootstrap_qualifier())
    for statement in unnamed(policy, needed):
        # Lambda adds its own statement if the role that deploys may change the policy.
        yield _gap(f"repository {name}", statement, stops="AWS" in statement["Principal"])


def _bucket(client: Any, name: str, place: Mapping[str, str]) -> Iterator[Finding]:
    if look_up(client.head_bucket, Bucket=name) is None:
        yield _absent("bucket", name, place)
        return
    answer = look_up(client.get_bucket_policy, Bucket=name)
    needed = bucket_statements(name, **place, qualifier=bootstrap_qualifier())
    for statement in unnamed(answer["Policy"] if answer else "{}", needed):
        yield _gap(f"bucket {name}", statement, stops=True)
    rules = look_up(client.get_bucket_lifecycle_configuration, Bucket=name) or {}
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


def _log_group(client: Any, name: str) -> Iterator[Finding]:
    answer = client.describe_log_groups(logGroupNamePrefix=name)
    found = [group for group in answer["logGroups"] if group["logGroupName"] == name]
    if not found:
        yield Finding(f"there is no log group {name}; allowed: one that exists", stops=True)
    elif found[0].get("logGroupClass", "STANDARD") != "STANDARD":
        yield Finding(
            "the alarms' metrics are extracted from the log, which only the class STANDARD can; "
            f"found: {found[0]['logGroupClass']} of {name}; allowed: a log group of that class",
            stops=True,
        )


def _role(
    client: Any, name: str, log_group: str | None, place: Mapping[str, str], *, traced: bool
) -> Iterator[Finding]:
    answer = look_up(client.get_role, RoleName=name.rpartition("/")[2])
    arn = f"arn:{place['partition']}:iam::{place['account']}:role/{name}"
    if answer is None or answer["Role"]["Arn"] != arn:
        yield Finding(
            f"there is no role {arn}; found: {answer['Role']['Arn'] if answer else 'none'}; "
            "allowed: a role's name after its path",
            stops=True,
        )
        return
    trusted = answer["Role"]["AssumeRolePolicyDocument"]
    if "lambda.amazonaws.com" not in json.dumps(trusted):
        yield Finding(
            f"Lambda must be able to assume the role {name}; found: {json.dumps(trusted)}; "
            "allowed: a trust policy for lambda.amazonaws.com",
            stops=True,
        )
    streams = f"arn:{place['partition']}:logs:{place['region']}:{place['account']}:log-group"
    asked = [(_TRACES, "*")] if traced else []
    if log_group:
        asked.append((_LOGS, f"{streams}:{log_group}:*"))
    for actions, resource in asked:
        results = client.simulate_principal_policy(
            PolicySourceArn=arn, ActionNames=list(actions), ResourceArns=[resource]
        )["EvaluationResults"]
        refused = [
            result["EvalActionName"] for result in results if result["EvalDecision"] != "allowed"
        ]
        if refused:
            yield Finding(
                f"the role {name} may not do {', '.join(refused)} on {resource}: the deploy "
                "succeeds, but there are no logs or traces, and alarms on metrics from the log "
                "stay silent. Its permissions: cdk.out/iam-policy-report.txt"
            )


def _gap(of: str, statement: Mapping[str, Any], *, stops: bool) -> Finding:
    return Finding(
        f"the policy of the {of} lacks a statement ({_PAGE}): {json.dumps(statement)}", stops=stops
    )


def _absent(kind: str, name: str, place: Mapping[str, str]) -> Finding:
    where = f"{place['account']} in {place['region']}"
    return Finding(
        f"there is no {kind} {name} of the account {where}; allowed: one that exists", stops=True
    )
