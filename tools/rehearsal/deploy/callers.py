"""Checks of callers' permissions, with signed requests to the deployed URL and calls to ECR."""

import json
from typing import Any

from botocore import xform_name
from botocore.exceptions import ClientError

from stacks.names import bootstrap_qualifier
from tools.rehearsal.deploy.calls import send
from tools.rehearsal.deploy.deployed import Outputs
from tools.rehearsal.deploy.emulator import Credentials, Emulator
from tools.rehearsal.image.report import Report

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
    deployed: Outputs,
    *,
    caller: Credentials,
    stranger: Credentials,
) -> None:
    """Call the endpoint as an allowed role, as another role, and without a signature."""
    url = deployed["Url"]
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


def _check_invoke(report: Report, aws: Emulator, deployed: Outputs, caller: Credentials) -> None:
    alias = str(deployed["AliasArn"])
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
    name = f"cdk-{bootstrap_qualifier()}-image-publishing-role-{aws.account}-{aws.region}"
    publisher = aws.assume(f"arn:aws:iam::{aws.account}:role/{name}")
    stranger = aws.assume(f"arn:aws:iam::{aws.account}:role/{STRANGER}")
    one = {"repositoryName": repository}
    images = one | {"imageIds": [{"imageTag": "missing"}]}
    may: dict[str, dict[str, Any]] = {
        "DescribeRepositories": {"repositoryNames": [repository]},
        "DescribeImages": images,
        "BatchGetImage": images,
        "BatchCheckLayerAvailability": one | {"layerDigests": ["sha256:" + "0" * 64]},
        "InitiateLayerUpload": one,
    }
    may_not = {
        "DeleteRepository": one,
        "BatchDeleteImage": images,
        "SetRepositoryPolicy": one | {"policyText": "{}"},
        "PutLifecyclePolicy": one | {"lifecyclePolicyText": "{}".ljust(100)},
    }

    def denied(who: Credentials, actions: dict[str, Any]) -> list[str]:
        ecr = aws.client("ecr", who)
        return [name for name, given in actions.items() if _denied(ecr, name, given)]

    refused = denied(publisher, may)
    allowed = sorted(may_not.keys() - denied(publisher, may_not))
    permitted = sorted((may | may_not).keys() - denied(stranger, may | may_not))
    for check, faults in (
        (f"bootstrap's role may {', '.join(may)}", refused),
        (f"bootstrap's role may not {', '.join(may_not)}", allowed),
        ("another role may do none of these", permitted),
    ):
        by = "ECR as that role; the emulated AWS's policies"
        report.check("repository policy", check, not faults, by=by, found=", ".join(faults))


def _denied(ecr: Any, action: str, given: dict[str, Any]) -> bool:
    try:
        getattr(ecr, xform_name(action))(**given)
    except ClientError as error:
        return error.response["Error"]["Code"] in {"AccessDeniedException", "AccessDenied"}
    return False
