"""A second environment with its own key, roles, repository and log group, and with all parts.

Its destroy finds the tables of the parts in the file, and that of the first environment does not.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomlkit

from embedding_kit.environment_file import load_environment
from embedding_kit.key_policy import needed_statements
from embedding_kit.publishing import repository_statements
from stacks.names import bootstrap_qualifier
from tools.rehearsal.deploy.cdk import Cdk, check_success
from tools.rehearsal.deploy.checkout import copy_checkout
from tools.rehearsal.deploy.emulator import Emulator
from tools.rehearsal.image.report import Report

__all__ = ["check_owned_environment"]

_NAME = "owned"
_PARTITION = "aws"
_REPOSITORY, _LOG_GROUP, _PATH = "team/embeddings", "/team/embedder", "/team/"
#: Tables that the scenario needs none of.
_LEFT_OUT = ("index", "repository", "release", "cold_start", "experiment")
_BY = "scripts/deploy; the services' APIs"


def check_owned_environment(
    report: Report,
    cdk: Cdk,
    parts: Mapping[str, Mapping[str, Any]],
    *,
    root: Path,
    folder: Path,
) -> None:
    """Deploy the environment, change its role, and destroy it.

    Args:
        report: The report of the checks.
        cdk: Runs the commands for another environment.
        parts: The settings of the parts, by table.
        root: The repository.
        folder: A folder for the copy of the repository.
    """
    aws = cdk.aws
    checkout = copy_checkout(root, folder / "owned-checkout", _NAME)
    key = aws.client("kms").create_key()["KeyMetadata"]["Arn"]
    boundary = _make_boundary(aws)
    document = tomlkit.parse(cdk.checkout.file.read_text())
    for table in _LEFT_OUT:
        document.pop(table, None)
    function = document.get("function", {})
    function.pop("log_retention_days", None)
    document["termination_protection"] = False
    document["encryption"] = {"key": key}
    document["roles"] = {"permissions_boundary": boundary, "path": _PATH}
    document["existing"] = {"repository": _REPOSITORY, "log_group": _LOG_GROUP}
    for table, settings in parts.items():
        document[table] = tomlkit.item(dict(settings))
    checkout.file.write_text(tomlkit.dumps(document))
    owned = replace(cdk, checkout=checkout)
    _check_refused(report, owned, key)
    place = {"partition": _PARTITION, "region": aws.region, "account": aws.account}
    environment = load_environment(_NAME, folder=checkout.file.parent)
    _put_policy(aws, key, needed_statements(environment, **place))
    _make_resources(aws, repository_statements(**place, qualifier=bootstrap_qualifier()))
    with report.step("scripts/deploy of an environment with a key and roles of its own"):
        done = owned.deploy()
    if not check_success(report, "scripts/deploy with an own key", done):
        return
    document["roles"]["path"] = "/other/"
    document["release"] = {"kind": "canary"}
    checkout.file.write_text(tomlkit.dumps(document))
    with report.step("scripts/deploy, with another path of roles and a canary"):
        refused = owned.deploy()
    report.check(
        "own roles",
        "a changed role is refused before a gradual release",
        refused.status != 0
        and refused.count("must have the same execution role") == 1
        and not refused.count("Synthesis time"),
        by="scripts/deploy",
        found=refused.tail(1),
    )
    with report.step("scripts/destroy of the environment with a key and roles of its own"):
        destroyed = owned.destroy(owned.assembly)
    if check_success(report, "scripts/destroy with an own key", destroyed):
        _check_kept(report, aws)
    # The checks at the end find what the other environment leaves.
    aws.client("ecr").delete_repository(repositoryName=_REPOSITORY, force=True)
    aws.client("logs").delete_log_group(logGroupName=_LOG_GROUP)
    aws.client("kms").schedule_key_deletion(KeyId=key)


def _check_refused(report: Report, cdk: Cdk, key: str) -> None:
    """Deploy with nothing but a key of KMS's default policy, which must change nothing."""
    with report.step("scripts/deploy, with a key that only roles may use"):
        refused = cdk.deploy()
    report.check(
        "own key",
        "missing statements and resources are named before anything is deployed",
        refused.status != 0
        and refused.count(f"the policy of the key {key} lacks a statement") > 0
        and refused.count(f"there is no repository {_REPOSITORY}") == 1
        and refused.count(f"there is no log group {_LOG_GROUP}") == 1
        and not refused.count("Synthesis time"),
        by="scripts/deploy",
        found=refused.tail(4),
    )


def _make_boundary(aws: Emulator) -> str:
    statement = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    made = aws.client("iam").create_policy(
        PolicyName="owned-boundary", PolicyDocument=json.dumps(document)
    )
    return str(made["Policy"]["Arn"])


def _put_policy(aws: Emulator, key: str, statements: list[dict[str, object]]) -> None:
    policy = {"Version": "2012-10-17", "Statement": statements}
    aws.client("kms").put_key_policy(KeyId=key, PolicyName="default", Policy=json.dumps(policy))


def _make_resources(aws: Emulator, statements: list[dict[str, object]]) -> None:
    ecr = aws.client("ecr")
    ecr.create_repository(repositoryName=_REPOSITORY, imageTagMutability="IMMUTABLE")
    policy = {"Version": "2012-10-17", "Statement": statements}
    ecr.set_repository_policy(repositoryName=_REPOSITORY, policyText=json.dumps(policy))
    aws.client("logs").create_log_group(logGroupName=_LOG_GROUP)


def _check_kept(report: Report, aws: Emulator) -> None:
    listed = aws.client("ecr").describe_repositories()["repositories"]
    names = [item["repositoryName"] for item in listed if item["repositoryName"] == _REPOSITORY]
    groups = aws.client("logs").describe_log_groups(logGroupNamePrefix=_LOG_GROUP)["logGroups"]
    names += [group["logGroupName"] for group in groups]
    report.check(
        "existing resources",
        "stay when the environment is destroyed",
        names == [_REPOSITORY, _LOG_GROUP],
        by=_BY,
        found=", ".join(names),
    )
