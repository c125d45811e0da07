"""Values of a template, and what its roles may do by an independent evaluator of IAM policies.

References in the template are replaced by ARNs of one function, one state machine and one log
group, which are enough for a construct of its own.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Sequence
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


def of_kind(template: Template, kind: str) -> list[dict[str, Any]]:
    """Return the properties of each resource of a kind."""
    return [resource["Properties"] for resource in template.find_resources(kind).values()]


def only(template: Template, kind: str) -> dict[str, Any]:
    """Return the properties of the only resource of a kind."""
    (properties,) = of_kind(template, kind)
    return properties


def statements(template: Template, role: str = "") -> list[dict[str, Any]]:
    """Return the statements of all policies, or of the roles with such a start of their ids."""
    return [
        statement
        for policy in of_kind(template, "AWS::IAM::Policy")
        if any(attached["Ref"].startswith(role) for attached in policy["Roles"])
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def _attribute(name: str, attribute: str) -> str:
    resource = "Function" if "Function" in name else "Log"
    return _ATTRIBUTES.get(attribute, _ATTRIBUTES[resource])


def resolved(
    value: Any, *, one: str = _MACHINE, attribute: Callable[[str, str], str] = _attribute
) -> Any:
    """Replace a template's references: those to a resource by `one`, those to an attribute."""
    functions: dict[str, Callable[[Any], Any]] = {
        "Ref": lambda name: _PSEUDO.get(name, one),
        "Fn::GetAtt": lambda names: attribute(*names),
        "Fn::Join": lambda parts: parts[0].join(parts[1]),
        "Fn::Sub": lambda text: re.sub(r"\$\{(.+?)\}", lambda name: _PSEUDO[name[1]], text),
    }

    def replaced(value: Any) -> Any:
        if isinstance(value, list):
            return [replaced(item) for item in value]
        if not isinstance(value, dict):
            return value
        items = {key: replaced(item) for key, item in value.items()}
        name = next(iter(items), "")
        return functions[name](items[name]) if name in functions else items

    return replaced(value)


#: A principal, or a role by the beginning of its logical id; an action; a resource; the conditions'
#: keys, if any.
Case = tuple[str, str, str] | tuple[str, str, str, dict[str, Any]]


def allowed_by(cases: Sequence[Case], **policies: Any) -> list[Case]:
    """Return the cases in which a principal may do the action by the same policies.

    They are its own, `identity`, and that of the resource in an account.
    """
    return _answered(cases, [_question(*case, **policies) for case in cases])


def allowed(
    template: Template, cases: Sequence[Case], *, resolve: Callable[[Any], Any] = resolved
) -> list[Case]:
    """Return the cases in which the role may do the action.

    References in the policies are replaced by `resolve`.
    """
    policies = [
        ([role["Ref"] for role in policy["Roles"]], resolve(policy["PolicyDocument"]))
        for policy in of_kind(template, "AWS::IAM::Policy")
    ]

    def question(role: str, action: str, resource: str, *context: Any) -> dict[str, Any]:
        identity = [
            document for roles, document in policies if any(name.startswith(role) for name in roles)
        ]
        assert identity
        return _question(
            f"arn:aws:iam::{HOME}:role/{role}",
            action,
            resource,
            *context,
            identity=identity,
            resource_policy=KEY_POLICY if ":kms:" in resource else None,
        )

    return _answered(cases, [question(*case) for case in cases])


def _question(
    principal: str,
    action: str,
    resource: str,
    context: dict[str, Any] | None = None,
    *,
    account: str = HOME,
    identity: Sequence[dict[str, Any]] = (),
    resource_policy: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "principal": principal,
        "action": action,
        "resource": resource,
        "context": context or {},
        "account": account,
        "identity": identity,
        "resource_policy": resource_policy,
    }


def _answered(cases: Sequence[Case], questions: list[dict[str, Any]]) -> list[Case]:
    """Return the cases with a yes from an independent evaluator of IAM policies."""
    module = Path(__file__)
    done = subprocess.run(
        # As code, so that Node finds the package from the current folder.
        [
            os.environ["JSII_NODE"],
            "--input-type=module",
            "--eval",
            module.with_name("evaluate_policies.mjs").read_text(),
        ],
        cwd=module.parents[2] / "scripts",
        input=json.dumps(questions),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [case for case, answer in zip(cases, json.loads(done.stdout), strict=True) if answer]
