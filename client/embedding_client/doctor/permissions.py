"""The two permissions of a caller of a Function URL.

Since October 2025 a caller needs `lambda:InvokeFunctionUrl` and `lambda:InvokeFunction`, the second
at least for invocations by a URL (https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html). An
answered request proves both. For a refused one, the function's policy and a simulation of the
caller's own policies show which is missing. IAM does not simulate a function's policy for a role
(https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html), so that is
read and compared here.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from embedding_client.doctor.facts import Facts, NoAnswer
from embedding_client.doctor.findings import Finding, SkippedError, ill, ok, skipped, warning
from embedding_client.doctor.outside import AwsError, NotPermittedError

__all__ = ["CONDITIONS", "Evidence", "Principal", "check_permissions", "judge_permissions"]

#: Each permission, with the condition key that a request by the URL has, and its value.
CONDITIONS = {
    "lambda:InvokeFunctionUrl": ("lambda:FunctionUrlAuthType", "string", "AWS_IAM"),
    "lambda:InvokeFunction": ("lambda:InvokedViaFunctionUrl", "boolean", "true"),
}
_ASSUMED = re.compile(r"arn:(aws[\w-]*):sts::(\d{12}):assumed-role/([^/]+)/.+")
_ORGANIZATION = "aws:PrincipalOrgID"


class Principal(NamedTuple):
    """The caller: its account, and the ARN of its role or user."""

    account: str
    arn: str


class Evidence(NamedTuple):
    """What was read about the permissions.

    Attributes:
        status: The status of a signed request; None without an answer.
        owner: The function's account.
        policy: The statements of the function's policy; None if it may not be read.
        simulated: IAM's decision on the caller's own policies by action; None if not permitted.
        unread: The actions that were missing to look.
    """

    status: int | None
    owner: str
    policy: Sequence[Mapping[str, Any]] | None
    simulated: Mapping[str, str] | None
    unread: Sequence[str] = ()


def check_permissions(facts: Facts) -> Finding:
    """Read what there is about the caller's permissions."""
    if facts.is_local:
        raise SkippedError("a URL of this machine checks only the signature")
    reply = facts.signed()
    status = None if isinstance(reply, NoAnswer) else reply.status
    try:
        identity, alias = facts.identity(), facts.alias()
    except SkippedError:
        if not facts.takes_signatures:
            raise SkippedError("the endpoint takes no signature") from None
        if status == 200:
            return ok("both: a signed request is answered")
        raise
    unread: list[str] = []
    policy = simulated = None
    try:
        policy = facts.policy()
    except NotPermittedError as error:
        unread.append(error.action)
    principal = Principal(identity["Account"], _role(facts, identity["Arn"]))
    try:
        simulated = _simulate(facts, principal.arn, alias.arn)
    except NotPermittedError as error:
        unread.append(error.action)
    except AwsError:  # such as a role of another account, which IAM does not know here
        unread.append("iam:SimulatePrincipalPolicy")
    return judge_permissions(
        principal,
        Evidence(status, alias.account, policy, simulated, tuple(unread)),
        refused=warning if facts.asked.deployer else ill,
    )


def judge_permissions(
    principal: Principal, evidence: Evidence, *, refused: Callable[..., Finding] = ill
) -> Finding:
    """Judge both permissions by the answer, the function's policy and the simulation.

    Args:
        principal: The caller.
        evidence: What was read.
        refused: Makes the finding of a caller who is not allowed.
    """
    decided = {action: _decision(principal, evidence, action) for action in CONDITIONS}
    sources = {action: source for action, (allowed, source) in decided.items() if allowed}
    if evidence.status == 200:
        named = sorted(set(sources.values()))
        by = f", by {' and '.join(named)}" if len(sources) == len(CONDITIONS) else ""
        return ok(f"both: a signed request is answered{by}", sources=sources)
    missing = [action for action, (allowed, _) in decided.items() if allowed is False]
    if missing:
        why = sorted({decided[action][1] for action in missing})
        return refused(
            f"{principal.arn} lacks {' and '.join(missing)} ({', '.join(why)})",
            "add the role under [callers] of the environment's file and deploy; in another account "
            "also add both to its own policies (docs/operations.md#who-may-call)",
            missing=missing,
        )
    if len(sources) == len(CONDITIONS):
        found = f"both are granted, by {' and '.join(sorted(set(sources.values())))}"
        if evidence.status == 403:
            return ill(
                f"{found}, but a signed request gets 403",
                "check service control policies, permissions boundaries, session policies, "
                "and the clock of this machine",
            )
        return ok(found, sources=sources)
    looked = f"no permission for {', '.join(evidence.unread)}"
    if evidence.status == 403:
        return refused(
            f"a signed request gets 403; {looked}",
            "a caller needs lambda:InvokeFunctionUrl, and lambda:InvokeFunction with the condition "
            "lambda:InvokedViaFunctionUrl (docs/operations.md#who-may-call)",
        )
    return skipped(looked)


def _decision(principal: Principal, evidence: Evidence, action: str) -> tuple[bool | None, str]:
    """Decide whether an action is allowed: True, False or None for unknown; and by what."""
    own = None if evidence.simulated is None else evidence.simulated.get(action)
    granted = None if evidence.policy is None else _grant(evidence.policy, principal, action)
    same = principal.account == evidence.owner
    by_itself = own == "allowed" or (own is None and principal.arn.endswith(":root"))
    denied = {
        "its own policies deny it": own == "explicitDeny",
        "the function's policy denies it": granted == "deny",
    }
    allowed = {
        "its own policies": same and by_itself,
        "the function's policy": same and granted == "direct",
        "its own policies and the function's": by_itself and granted in {"direct", "account"},
    }
    lacking = {
        "neither its own policies nor the function's allow it": own == "implicitDeny"
        and granted == "none",
        "its own policies do not allow it": own == "implicitDeny" and granted is not None,
        "the function's policy does not allow it": granted == "none" and not same,
    }
    for decision, reasons in ((False, denied), (True, allowed), (False, lacking)):
        for reason, holds in reasons.items():
            if holds:
                return decision, reason
    return None, ""


def _grant(policy: Sequence[Mapping[str, Any]], principal: Principal, action: str) -> str:
    """Return how a function's policy treats a caller: deny, direct, account or none."""
    best = "none"
    for statement in policy:
        if not _names(statement, action) or not _holds(statement.get("Condition", {}), action):
            continue
        given = _principals(statement)
        account = {principal.account, f"arn:aws:iam::{principal.account}:root"} & given
        if not (account or {principal.arn, "*"} & given):
            continue
        if statement["Effect"] == "Deny":
            return "deny"
        # A grant to the account leaves the decision to the policies of its roles.
        if principal.arn in given or "*" in given:
            best = "direct"
        elif best == "none":
            best = "account"
    return best


def _names(statement: Mapping[str, Any], action: str) -> bool:
    given = statement.get("Action", [])
    return bool({action, "lambda:*", "*"} & ({given} if isinstance(given, str) else {*given}))


def _principals(statement: Mapping[str, Any]) -> set[str]:
    given = statement.get("Principal", {})
    given = given if isinstance(given, str) else given.get("AWS", [])
    return {given} if isinstance(given, str) else {*given}


def _holds(conditions: Mapping[str, Mapping[str, Any]], action: str) -> bool:
    """Return whether a request by the URL meets conditions; an organization is taken as met."""
    key, _, value = CONDITIONS[action]
    for pairs in conditions.values():
        for name, wanted in pairs.items():
            if name == _ORGANIZATION:
                continue
            values = [wanted] if isinstance(wanted, str | bool) else wanted
            if name != key or value.lower() not in {str(each).lower() for each in values}:
                return False
    return True


def _role(facts: Facts, arn: str) -> str:
    """Return the ARN of the role behind a session, or the ARN of a user."""
    session = _ASSUMED.fullmatch(arn)
    if session is None:
        return arn
    partition, account, name = session.groups()
    try:
        # Only IAM knows the role's path.
        return str(facts.aws.call("iam", "get_role", RoleName=name)["Role"]["Arn"])
    except (NotPermittedError, AwsError):
        return f"arn:{partition}:iam::{account}:role/{name}"


def _simulate(facts: Facts, principal: str, resource: str) -> dict[str, str]:
    decisions = {}
    for action, (key, kind, value) in CONDITIONS.items():
        answer = facts.aws.call(
            "iam",
            "simulate_principal_policy",
            PolicySourceArn=principal,
            ActionNames=[action],
            ResourceArns=[resource],
            ContextEntries=[
                {"ContextKeyName": key, "ContextKeyType": kind, "ContextKeyValues": [value]}
            ],
        )
        decisions[action] = answer["EvaluationResults"][0]["EvalDecision"]
    return decisions
