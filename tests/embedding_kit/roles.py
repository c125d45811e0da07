"""Values of a template, and what its roles may do by an independent evaluator of IAM policies.

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
#: A stack, as the reference in its own template.
STACK = f"arn:aws:cloudformation:us-east-1:{HOME}:stack/Stack/1"
_PSEUDO = {
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "AWS::AccountId": HOME,
    "AWS::StackId": STACK,
}
_MACHINE = f"arn:aws:states:us-east-1:{HOME}:stateMachine:one"
_ATTRIBUTES = {
    "Name": "one",
    "IndexArn": f"arn:aws:s3vectors:us-east-1:{HOME}:bucket/one/index/one",
    "Function": f"arn:aws:lambda:us-east-1:{HOME}:function:one",
    "Log": f"arn:aws:logs:us-east-1:{HOME}:log-group:one:*",
}


def only(template: Template, kind: str) -> dict[str, Any]:
    """Return the properties of the only resource of a kind."""
    (resource,) = template.find_resources(kind).values()
    properties: dict[str, Any] = resource["Properties"]
    return properties


def _attribute(name: str, attribute: str) -> str:
    kind = "Function" if "Function" in name else "Log"
    return _ATTRIBUTES.get(attribute, _ATTRIBUTES[kind])


def resolved(
    value: Any, *, one: str = _MACHINE, attribute: Callable[[str, str], str] = _attribute
) -> Any:
    """Replace a template's references: those to a resource by `one`, those to an attribute."""

    def replaced(value: Any) -> Any:
        if isinstance(value, list):
            return [replaced(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "Ref" in value:
            return _PSEUDO.get(value["Ref"], one)
        if "Fn::GetAtt" in value:
            return attribute(*value["Fn::GetAtt"])
        if "Fn::Join" in value:
            separator, parts = replaced(value["Fn::Join"])
            return separator.join(parts)
        return {key: replaced(item) for key, item in value.items()}

    return replaced(value)


def asker(
    template: Template, question: Any, may: Any, *, resolve: Callable[[Any], Any] = resolved
) -> Callable[..., bool]:
    """Return a function that says whether a role may do an action on a resource.

    A role is named by the beginning of its logical id; `s3_prefix` is the condition `s3:prefix`.
    References in its policies are replaced by `resolve`.
    """
    policies = template.find_resources("AWS::IAM::Policy").values()

    def ask(role: str, action: str, resource: str, **context: str) -> bool:
        identity = [
            resolve(policy["Properties"]["PolicyDocument"])
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
