"""Ask an independent evaluator of IAM policies what the roles of a template may do.

References in the template are replaced by ARNs of one function, one state machine and one log
group, which are enough for a construct of its own.
"""

from collections.abc import Callable
from typing import Any

from aws_cdk.assertions import Template

HOME = "123456789012"
KEY = f"arn:aws:kms:us-east-1:{HOME}:key/"
#: What KMS gives to a new key: the policies of the account decide.
KEY_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{HOME}:root"},
            "Action": "kms:*",
            "Resource": "*",
        }
    ],
}
_PSEUDO = {"AWS::Partition": "aws", "AWS::Region": "us-east-1", "AWS::AccountId": HOME}
_MACHINE = f"arn:aws:states:us-east-1:{HOME}:stateMachine:one"
_ATTRIBUTES = {
    "Name": "one",
    "IndexArn": f"arn:aws:s3vectors:us-east-1:{HOME}:bucket/one/index/one",
    "Function": f"arn:aws:lambda:us-east-1:{HOME}:function:one",
    "Log": f"arn:aws:logs:us-east-1:{HOME}:log-group:one:*",
}


def resolved(value: Any) -> Any:
    """Replace a template's references with made-up ARNs."""
    if isinstance(value, list):
        return [resolved(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "Ref" in value:
        return _PSEUDO.get(value["Ref"], _MACHINE)
    if "Fn::GetAtt" in value:
        name, attribute = value["Fn::GetAtt"]
        kind = "Function" if "Function" in name else "Log"
        return _ATTRIBUTES.get(attribute, _ATTRIBUTES[kind])
    if "Fn::Join" in value:
        separator, parts = resolved(value["Fn::Join"])
        return separator.join(parts)
    return {key: resolved(item) for key, item in value.items()}


def asker(template: Template, question: Any, may: Any) -> Callable[..., bool]:
    """Return a function that says whether a role may do an action on a resource.

    A role is named by the beginning of its logical id; `s3_prefix` is the condition `s3:prefix`.
    """
    policies = template.find_resources("AWS::IAM::Policy").values()

    def ask(role: str, action: str, resource: str, **context: str) -> bool:
        identity = [
            resolved(policy["Properties"]["PolicyDocument"])
            for policy in policies
            if any(found["Ref"].startswith(role) for found in policy["Properties"]["Roles"])
        ]
        assert identity
        asked = question(
            principal=f"arn:aws:iam::{HOME}:role/{role}",
            action=action,
            resource=resource,
            context={name.replace("_", ":"): value for name, value in context.items()},
            identity=identity,
            resource_policy=KEY_POLICY if ":kms:" in resource else None,
        )
        (answer,) = may(asked)
        return bool(answer)

    return ask
