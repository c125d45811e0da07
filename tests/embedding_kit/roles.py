"""Values of a template, and what its roles may do by an independent evaluator of IAM policies.

References in the template are replaced by ARNs of one function, one state machine and one log
group, which are enough for a construct of its own.
"""

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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


@dataclass(frozen=True, kw_only=True)
class Question:
    """May `principal` do `action` on `resource`, which belongs to `account`?"""

    principal: str
    action: str
    resource: str
    account: str = HOME
    context: dict[str, Any] = field(default_factory=dict)
    identity: list[dict[str, Any]] = field(default_factory=list)
    resource_policy: dict[str, Any] | None = None


def may(*questions: Question) -> list[bool]:
    """Answer questions with an independent evaluator of IAM policies."""
    here = Path(__file__)
    done = subprocess.run(
        # As code, so that Node finds the package from the current folder.
        [
            os.environ["JSII_NODE"],
            "--input-type=module",
            "--eval",
            here.with_name("evaluate_policies.mjs").read_text(),
        ],
        cwd=here.parents[2] / "scripts",
        input=json.dumps([vars(question) for question in questions]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[bool] = json.loads(done.stdout)
    return answers


#: A role, by the beginning of its logical id; an action; a resource; the conditions' keys, if any.
Case = tuple[str, str, str] | tuple[str, str, str, dict[str, str]]


def allowed(
    template: Template, cases: Sequence[Case], *, resolve: Callable[[Any], Any] = resolved
) -> list[Case]:
    """Return the cases in which the role may do the action.

    References in the policies are replaced by `resolve`.
    """
    policies = [
        (
            [found["Ref"] for found in policy["Properties"]["Roles"]],
            resolve(policy["Properties"]["PolicyDocument"]),
        )
        for policy in template.find_resources("AWS::IAM::Policy").values()
    ]

    def question(role: str, action: str, resource: str, *context: dict[str, str]) -> Question:
        identity = [
            document for roles, document in policies if any(name.startswith(role) for name in roles)
        ]
        assert identity
        return Question(
            principal=f"arn:aws:iam::{HOME}:role/{role}",
            action=action,
            resource=resource,
            context=context[0] if context else {},
            identity=identity,
            resource_policy=KEY_POLICY if ":kms:" in resource else None,
        )

    answers = may(*(question(*case) for case in cases))
    return [case for case, answer in zip(cases, answers, strict=True) if answer]
