"""Checks of callers' permissions, with signed requests to the deployed URL and calls to ECR."""

import json

from botocore.exceptions import ClientError

from deploy_rehearsal.calls import send
from deploy_rehearsal.deployed import DeployedStacks
from deploy_rehearsal.emulator import Credentials, Emulator
from image_rehearsal.report import Report

__all__ = ["CALLER", "STRANGER", "check_answers", "check_publishing", "make_role"]

CALLER = "rehearsal-caller"
STRANGER = "rehearsal-stranger"
_SIGNED = "signed request through the deployed URL; the emulated AWS's signature check and policies"


def make_role(aws: Emulator, name: str) -> str:
    """Create a role without policies that the account's principals may assume."""
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"AWS": f"arn:aws:iam::{aws.account}:root"},
                "Action": "sts:AssumeRole",
            }
        ],
    }
    role = aws.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
    return str(role["Role"]["Arn"])


def check_answers(
    report: Report,
    aws: Emulator,
    deployed: DeployedStacks,
    *,
    caller: Credentials,
    stranger: Credentials,
) -> None:
    """Call the endpoint as an allowed role, as another role, and without a signature."""
    url = deployed.outputs["Url"]
    text = {"text": "hello, embedding"}
    allowed = send(aws, url, text, who=caller)
    size = len(allowed.json().get("embedding", [])) if allowed.status == 200 else 0
    found = (
        f"{allowed.status}, {size} numbers" if size else f"{allowed.status} {allowed.body[:200]!r}"
    )
    report.check(
        "endpoint", "the allowed role gets 200 and a vector", size > 0, by=_SIGNED, found=found
    )
    for who, name in ((stranger, "another role of the account"), (None, "an unsigned request")):
        refused = send(aws, url, text, who=who)
        report.check(
            "endpoint",
            f"{name} gets 403",
            refused.status == 403,
            by=_SIGNED,
            found=refused.status,
        )
    changed = send(aws, url, text, who=caller, tampered=True)
    report.check(
        "endpoint",
        "a body changed after signing gets 403",
        changed.status == 403,
        by=_SIGNED,
        found=changed.status,
    )
    _check_invoke(report, aws, deployed, caller)


def _check_invoke(
    report: Report, aws: Emulator, deployed: DeployedStacks, caller: Credentials
) -> None:
    alias = str(deployed.outputs["AliasArn"])
    for arn, name in ((alias, "the alias"), (alias.rpartition(":")[0], "the function itself")):
        code = "answered"
        try:
            aws.client("lambda", caller).invoke(FunctionName=arn, Payload=b"{}")
        except ClientError as error:
            code = str(error.response["Error"]["Code"])
        report.check(
            "endpoint",
            f"the allowed role may not invoke {name} except through the URL",
            code == "AccessDeniedException",
            by="Invoke as that role; the emulated AWS's policies",
            found=code,
        )


def check_publishing(report: Report, aws: Emulator, repository: str) -> None:
    """Call ECR as bootstrap's image-publishing role, and as another role."""
    name = f"cdk-hnb659fds-image-publishing-role-{aws.account}-{aws.region}"
    publisher = aws.assume(f"arn:aws:iam::{aws.account}:role/{name}")
    images = [{"imageTag": "missing"}]
    digest = "sha256:" + "0" * 64
    may = {
        "DescribeRepositories": lambda ecr: ecr.describe_repositories(repositoryNames=[repository]),
        "DescribeImages": lambda ecr: ecr.describe_images(
            repositoryName=repository, imageIds=images
        ),
        "BatchGetImage": lambda ecr: ecr.batch_get_image(
            repositoryName=repository, imageIds=images
        ),
        "BatchCheckLayerAvailability": lambda ecr: ecr.batch_check_layer_availability(
            repositoryName=repository, layerDigests=[digest]
        ),
        "InitiateLayerUpload": lambda ecr: ecr.initiate_layer_upload(repositoryName=repository),
    }
    may_not = {
        "DeleteRepository": lambda ecr: ecr.delete_repository(repositoryName=repository),
        "BatchDeleteImage": lambda ecr: ecr.batch_delete_image(
            repositoryName=repository, imageIds=images
        ),
        "SetRepositoryPolicy": lambda ecr: ecr.set_repository_policy(
            repositoryName=repository, policyText="{}"
        ),
        "PutLifecyclePolicy": lambda ecr: ecr.put_lifecycle_policy(
            repositoryName=repository, lifecyclePolicyText="{}".ljust(100)
        ),
    }
    by = "ECR as that role; the emulated AWS's policies"
    refused = [action for action, call in may.items() if _denied(call, aws, publisher)]
    report.check(
        "repository policy",
        f"bootstrap's role may {', '.join(may)}",
        not refused,
        by=by,
        found=", ".join(refused),
    )
    allowed = [action for action, call in may_not.items() if not _denied(call, aws, publisher)]
    report.check(
        "repository policy",
        f"bootstrap's role may not {', '.join(may_not)}",
        not allowed,
        by=by,
        found=", ".join(allowed),
    )
    stranger = aws.assume(f"arn:aws:iam::{aws.account}:role/{STRANGER}")
    permitted = [
        action for action, call in {**may, **may_not}.items() if not _denied(call, aws, stranger)
    ]
    report.check(
        "repository policy",
        "another role may do none of these",
        not permitted,
        by=by,
        found=", ".join(permitted),
    )


def _denied(call: object, aws: Emulator, who: Credentials) -> bool:
    try:
        call(aws.client("ecr", who))  # type: ignore[operator]  # each takes a client
    except ClientError as error:
        return error.response["Error"]["Code"] in {"AccessDeniedException", "AccessDenied"}
    return False
