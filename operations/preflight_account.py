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
from embedding_kit.settings import Encryption, Existing, Provisioned
from operations.deployed import find_deployed
from operations.environment_session import account_of, look_up
from stacks.names import has_repository_stack, repository_name


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact to report before a deploy; `stops` if the deploy would certainly fail."""

    text: str
    stops: bool = False


def check_key(
    session: Session, environment: EnvironmentSettings, encryption: Encryption
) -> Iterator[Finding]:
    """Yield what is wrong with the key's policy, or the repository that would get the key.

    A key that is not there, or cannot be used, is named by AWS's own error.
    """
    key = encryption.key
    yield from _check_repository_key(session, environment, key)
    _, partition, _, region, owner, _ = key.split(":", 5)
    account = account_of(session, environment)
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
    """Yield what is wrong with existing resources and fails no deploy.

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


def _expiring(client: Any, name: str) -> Iterator[Finding]:
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


def _refused(
    session: Session, environment: EnvironmentSettings, role: str, log_group: str | None
) -> Iterator[Finding]:
    """Yield what the role may not do of what only its logs and traces need."""
    sts = session.create_client("sts", region_name=environment.region)
    identity = sts.get_caller_identity()
    partition = identity["Arn"].split(":")[1]
    account = environment.account or identity["Account"]
    groups = f"arn:{partition}:logs:{sts.meta.region_name}:{account}:log-group"
    asked = [(_TRACES, "*")] if environment.observability.tracing else []
    if log_group:
        asked.append((_LOGS, f"{groups}:{log_group}:*"))
    client = session.create_client("iam", region_name=environment.region)
    for actions, resource in asked:
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
