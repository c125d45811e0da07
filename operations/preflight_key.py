"""Check before a deploy whether AWS's services may use the environment's own key.

Without the key's permission, a deploy fails halfway, or alarms notify no one and report no error.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError
from botocore.session import Session

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.key_policy import needed_statements
from embedding_kit.settings import Encryption
from operations.finding import Finding
from stacks.names import has_repository_stack, repository_name

__all__ = ["check_key", "unnamed"]

_PAGE = "docs/security.md"


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
    try:
        metadata = client.describe_key(KeyId=encryption.key)["KeyMetadata"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "NotFoundException":
            raise
        yield Finding(
            f"there is no KMS key {encryption.key}; allowed: the ARN of a key in {region}",
            stops=True,
        )
        return
    yield from _usable(metadata, encryption.key)
    yield from _repository(session, environment, encryption.key)
    yield from _policy(client, session, environment, encryption.key)


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


def _repository(session: Session, environment: EnvironmentSettings, key: str) -> Iterator[Finding]:
    if not has_repository_stack(environment):
        return
    client = session.create_client("ecr", region_name=environment.region)
    name = repository_name(environment.name)
    try:
        (found,) = client.describe_repositories(repositoryNames=[name])["repositories"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "RepositoryNotFoundException":
            raise
        return
    encryption = found.get("encryptionConfiguration", {})
    if encryption.get("kmsKey") != key:
        has = encryption.get("kmsKey") or encryption.get("encryptionType", "AES256")
        yield Finding(
            f"ECR cannot change how the repository {name} is encrypted; found: {has}; allowed: a "
            "repository of your own with the key, by repository under [existing], or another "
            f"environment ({_PAGE})",
            stops=True,
        )


def _policy(
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
    """Return the needed statements whose service or account no statement of the policy names.

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
