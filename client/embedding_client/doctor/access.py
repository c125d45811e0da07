"""Credentials, the answers to an unsigned and a signed request, and permissions."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from embedding_client.doctor import LOGIN, CheckResult, SkippedError, failed, ok, skipped, warning
from embedding_client.doctor.probes import (
    AwsCallError,
    NotPermittedError,
    NoValidCredentialsError,
    Reply,
)
from embedding_client.doctor.snapshot import NoAnswer, Snapshot

#: Advice for a host without an address, without TLS, or with an invalid certificate.
_NO_ANSWER = (
    "compare the URL with the output Url of the stack, as a deleted URL has no address; check this "
    "machine's DNS and firewalls; if your company has a proxy, install its certificate"
)
_OUTAGE = "docs/runbook.md#outage"
_ADVICE = {
    401: "give one of the endpoint's API keys: --api-key-env VARIABLE",
    429: "no concurrency is left: docs/runbook.md#throttles",
    502: "the function crashes or does not start: docs/runbook.md#errors",
    504: "the function took too long: docs/runbook.md#durationp99",
}
#: AWS refuses a signature with a time that is further from AWS's clock.
_SKEW = timedelta(minutes=5)
#: Each permission, with the condition key that a request by the URL has, and its value.
CONDITIONS = {
    "lambda:InvokeFunctionUrl": ("lambda:FunctionUrlAuthType", "string", "AWS_IAM"),
    "lambda:InvokeFunction": ("lambda:InvokedViaFunctionUrl", "boolean", "true"),
}
_ASSUMED = re.compile(r"arn:(aws[\w-]*):sts::(\d{12}):assumed-role/([^/]+)/.+")


def check_credentials(snapshot: Snapshot) -> CheckResult:
    """Ask STS who the caller is."""
    if snapshot.is_local:
        return ok("a URL of this machine: AWS_ACCESS_KEY_ID and its secret, or local and local")
    try:
        arn, region = snapshot.identity()["Arn"], str(snapshot.region)
    except NoValidCredentialsError as error:
        if snapshot.options.url is not None and not snapshot.takes_signatures:
            raise SkippedError("the endpoint takes no signature") from error
        if snapshot.region is None:
            return failed("no region", "give --region, or set AWS_REGION")
        return failed(error.reason, LOGIN)
    return ok(f"{arn} in {region}", arn=arn, region=region)


def check_unsigned(snapshot: Snapshot) -> CheckResult:
    """Send a request without a signature; only 403 is right, or 401 without an API key."""
    reply = snapshot.unsigned()
    if isinstance(reply, NoAnswer):
        return failed(f"no answer ({reply.reason})", _NO_ANSWER)
    status = reply.status
    if status in {401, 403}:
        return ok(str(status), status=status)
    if status == 200 and snapshot.is_server():
        return warning(
            "200: a server without keys, which answers everybody who reaches it",
            "give it keys (docs/server.md#api-keys), or keep it in a network that you trust",
            status=status,
        )
    if status in {429, 502, 503, 504}:
        return warning(f"{status} instead of 403", "run it again", status=status)
    return failed(
        f"{status} instead of 403: requests without a signature reach the function",
        "set the URL's AuthType to AWS_IAM, for example with `scripts/deploy`",
        status=status,
    )


def _refused(snapshot: Snapshot, summary: str, advice: str, **data: Any) -> CheckResult:
    """Return the result for a caller who is not allowed, which who deploys need not be."""
    return (warning if snapshot.options.deployer else failed)(summary, advice, **data)


def check_signed(snapshot: Snapshot) -> CheckResult:
    """Send a signed request; only a vector or scores are right."""
    reply = snapshot.signed()
    if isinstance(reply, NoAnswer):
        return failed(f"no answer ({reply.reason})", f"{_NO_ANSWER}; otherwise {_OUTAGE}")
    if reply.status == 200:
        return _answered(reply)
    status = reply.status
    request = reply.headers.get("x-request-id") or reply.headers.get("x-amzn-requestid") or "none"
    summary = f"{status} (request {request})"
    if status != 403:
        advice = _ADVICE.get(status, "docs/runbook.md#url5xx; the log has this request id")
        return failed(summary, advice, status=status)
    date = reply.headers.get("date")
    sent = parsedate_to_datetime(date).astimezone(UTC) if date else None
    skew = sent - snapshot.clock() if sent else timedelta()
    if abs(skew) > _SKEW:
        advice = f"set this machine's clock: it differs from AWS's by {skew.total_seconds():.0f} s"
        return failed(summary, advice, status=status)
    return _refused(snapshot, summary, "see permissions below", status=status)


def _answered(reply: Reply) -> CheckResult:
    took = round(reply.milliseconds, 1)
    for header, answer in (("x-score-space", "a score"), ("x-label-space", "labels")):
        if header in reply.headers:
            return ok(f"200, {answer} in {took:,.0f} ms", status=200, milliseconds=took)
    try:
        size = len(json.loads(reply.body)["embedding"])
    except (ValueError, TypeError, KeyError):
        return failed("200 without a vector", "the URL is not that of an endpoint of this kit")
    summary = f"200, {size} dimensions in {took:,.0f} ms"
    return ok(summary, status=200, dimensions=size, milliseconds=took)


def check_permissions(snapshot: Snapshot) -> CheckResult:
    """Find which of the two permissions of a caller is missing.

    Since October 2025 a caller needs `lambda:InvokeFunctionUrl` and `lambda:InvokeFunction`, the
    second at least for invocations by a URL
    (https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html). An answered request proves both.
    For a refused one, IAM simulates the caller's own policies. It does not simulate a function's
    policy for a role
    (https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html), so the
    grants to the caller in it are read here.
    """
    if snapshot.is_local:
        raise SkippedError("a URL of this machine checks only the signature")
    reply = snapshot.signed()
    status = None if isinstance(reply, NoAnswer) else reply.status
    if status == 200 and snapshot.takes_signatures:
        return ok("both: a signed request is answered")
    if not snapshot.takes_signatures:
        raise SkippedError("the endpoint takes no signature")
    identity, alias = snapshot.identity(), snapshot.alias()
    principal = _role(snapshot, identity["Arn"])
    unread: list[str] = []
    granted: dict[str, bool] = {}
    decided: dict[str, str] = {}
    try:
        policy = snapshot.policy()
        granted = {name: any(_grants(s, principal, name) for s in policy) for name in CONDITIONS}
    except NotPermittedError as error:
        unread.append(error.action)
    try:
        decided = _simulate(snapshot, principal, alias.arn)
    except (NotPermittedError, AwsCallError):  # such as a role of another account
        unread.append("iam:SimulatePrincipalPolicy")
    other_account = identity["Account"] != alias.account
    allowed = {
        action: _is_allowed(decided.get(action), granted.get(action), other_account=other_account)
        for action in CONDITIONS
    }
    if missing := [action for action, is_allowed in allowed.items() if is_allowed is False]:
        return _refused(
            snapshot,
            f"{principal} lacks {' and '.join(missing)}",
            "add the role under [callers] of the environment's file and deploy; in another account "
            "also add both to its own policies (docs/security.md#who-may-call)",
            missing=missing,
        )
    if all(allowed.values()):
        if status != 403:
            return ok("both are granted")
        return failed(
            "both are granted, but a signed request gets 403",
            "check service control policies, permissions boundaries, session policies, "
            "and the clock of this machine",
        )
    looked = f"no permission for {', '.join(unread)}"
    if status == 403:
        return _refused(
            snapshot,
            f"a signed request gets 403; {looked}",
            "a caller needs lambda:InvokeFunctionUrl, and lambda:InvokeFunction with the condition "
            "lambda:InvokedViaFunctionUrl (docs/security.md#who-may-call)",
        )
    return skipped(looked)


def _is_allowed(decision: str | None, granted: bool | None, *, other_account: bool) -> bool | None:
    """Return whether IAM's decision and the function's policy allow an action; None if unknown.

    Either is enough in one account; a caller of another account needs both. A condition of the
    function's policy is taken as met.
    """
    if decision == "explicitDeny":
        return False
    answers = {granted, None if decision is None else decision == "allowed"}
    # One answer decides: that it allows, or for another account that it does not.
    if (not other_account) in answers:
        return not other_account
    return None if None in answers else other_account


def _grants(statement: Mapping[str, Any], principal: str, action: str) -> bool:
    """Return whether a statement of the function's policy grants an action to a caller."""
    principals = statement.get("Principal", {})
    names = principals if isinstance(principals, str) else principals.get("AWS", [])
    return (
        statement["Effect"] == "Allow"
        and action in _listed(statement.get("Action", []))
        and bool({principal, "*"} & set(_listed(names)))
    )


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _role(snapshot: Snapshot, arn: str) -> str:
    """Return the ARN of the role behind a session, or the ARN of a user."""
    session = _ASSUMED.fullmatch(arn)
    if session is None:
        return arn
    partition, account, name = session.groups()
    try:
        # Only IAM knows the role's path.
        return str(snapshot.aws.call("iam", "get_role", RoleName=name)["Role"]["Arn"])
    except (NotPermittedError, AwsCallError):
        return f"arn:{partition}:iam::{account}:role/{name}"


def _simulate(snapshot: Snapshot, principal: str, resource: str) -> dict[str, str]:
    decisions = {}
    for action, (key, key_type, value) in CONDITIONS.items():
        answer = snapshot.aws.call(
            "iam",
            "simulate_principal_policy",
            PolicySourceArn=principal,
            ActionNames=[action],
            ResourceArns=[resource],
            ContextEntries=[
                {"ContextKeyName": key, "ContextKeyType": key_type, "ContextKeyValues": [value]}
            ],
        )
        decisions[action] = answer["EvaluationResults"][0]["EvalDecision"]
    return decisions
