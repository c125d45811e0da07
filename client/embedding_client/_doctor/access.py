"""Credentials, the answers to an unsigned and a signed request, and permissions."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from embedding_client._doctor.probes import (
    AwsError,
    NoCredentialsError,
    NotPermittedError,
    Reply,
)
from embedding_client._doctor.results import CheckResult, SkippedError, failed, ok, skipped, warning
from embedding_client._doctor.snapshot import NoAnswer, Snapshot

_LOGIN = (
    "log in (`aws sso login`), choose a profile (--profile or AWS_PROFILE), or set "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
#: For a host without an address, without TLS, or with an invalid certificate.
_NO_ANSWER = (
    "compare the URL with the output Url of the stack, as a deleted URL has no address; check this "
    "machine's DNS and firewalls; if your company has a proxy, install its certificate"
)
_OUTAGE = "docs/runbook.md#outage"
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
        arn, region = snapshot.identity()["Arn"], str(snapshot.probes.region)
    except NoCredentialsError as error:
        if snapshot.asked.url is not None and not snapshot.takes_signatures:
            raise SkippedError("the endpoint takes no signature") from error
        if snapshot.probes.region is None:
            return failed("no region", "give --region, or set AWS_REGION")
        return failed(error.reason, _LOGIN)
    return ok(f"{arn} in {region}", arn=arn, region=region)


def check_unsigned(snapshot: Snapshot) -> CheckResult:
    """Send a request without a signature."""
    reply = snapshot.unsigned()
    if isinstance(reply, Reply) and reply.status == 200 and snapshot.is_server():
        return warning(
            "200: a server without keys, which answers everybody who reaches it",
            "give it keys (docs/server.md#api-keys), or keep it in a network that you trust",
            status=200,
        )
    return unsigned_result(reply)


def unsigned_result(reply: Reply | NoAnswer) -> CheckResult:
    """Decide on the answer to an unsigned request; only 403 is right, or 401 without an API key."""
    if isinstance(reply, NoAnswer):
        return failed(f"no answer ({reply.reason})", _NO_ANSWER)
    if reply.status in {401, 403}:
        return ok(str(reply.status), status=reply.status)
    if reply.status in {429, 502, 503, 504}:
        return warning(f"{reply.status} instead of 403", "run it again", status=reply.status)
    return failed(
        f"{reply.status} instead of 403: requests without a signature reach the function",
        "set the URL's AuthType to AWS_IAM, for example with `scripts/deploy`",
        status=reply.status,
    )


def check_signed(snapshot: Snapshot) -> CheckResult:
    """Send a signed request for a vector."""
    return signed_result(
        snapshot.signed(),
        snapshot.probes.now(),
        refused=warning if snapshot.asked.deployer else failed,
    )


def signed_result(
    reply: Reply | NoAnswer, now: datetime, *, refused: Callable[..., CheckResult] = failed
) -> CheckResult:
    """Decide on the answer to a signed request; `refused` is for who is not allowed."""
    if isinstance(reply, NoAnswer):
        return failed(f"no answer ({reply.reason})", f"{_NO_ANSWER}; otherwise {_OUTAGE}")
    if reply.status == 200:
        if "x-score-space" in reply.headers:
            took = round(reply.milliseconds, 1)
            return ok(f"200, a score in {took:,.0f} ms", status=200, milliseconds=took)
        size = _size(reply.body)
        if size is None:
            return failed("200 without a vector", "the URL is not that of an endpoint of this kit")
        return ok(
            f"200, {size} dimensions in {reply.milliseconds:,.0f} ms",
            status=200,
            dimensions=size,
            milliseconds=round(reply.milliseconds, 1),
        )
    request = reply.headers.get("x-request-id") or reply.headers.get("x-amzn-requestid") or "none"
    is_skewed = abs(_skew(reply, now)) > _SKEW
    result = refused if reply.status == 403 and not is_skewed else failed
    return result(f"{reply.status} (request {request})", _advice(reply, now), status=reply.status)


def _size(body: bytes) -> int | None:
    """Return the length of the vector in an answer; None without one."""
    try:
        return len(json.loads(body)["embedding"])
    except (ValueError, TypeError, KeyError):
        return None


def _advice(reply: Reply, now: datetime) -> str:
    skew = _skew(reply, now)
    if reply.status == 403 and abs(skew) > _SKEW:
        return f"set this machine's clock: it differs from AWS's by {skew.total_seconds():.0f} s"
    return {
        401: "give one of the endpoint's API keys: --api-key-env VARIABLE",
        403: "see permissions below",
        429: "no concurrency is left: docs/runbook.md#throttles",
        502: "the function crashes or does not start: docs/runbook.md#errors",
        504: "the function took too long: docs/runbook.md#durationp99",
    }.get(reply.status, "docs/runbook.md#url5xx; the log has this request id")


def _skew(reply: Reply, now: datetime) -> timedelta:
    date = reply.headers.get("date")
    return parsedate_to_datetime(date).astimezone(UTC) - now if date else timedelta()


class Evidence(NamedTuple):
    """What was read about the permissions.

    Attributes:
        status: The status of a signed request; None without an answer.
        policy: The statements of the function's policy; None if it may not be read.
        simulated: IAM's decision on the caller's own policies by action; None if not permitted.
        is_other_account: Whether the caller is of another account than the function.
        unread: The actions that were missing to look.
    """

    status: int | None
    policy: Sequence[Mapping[str, Any]] | None
    simulated: Mapping[str, str] | None
    is_other_account: bool = False
    unread: Sequence[str] = ()


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
    unread: list[str] = []
    policy = simulated = None
    try:
        policy = snapshot.policy()
    except NotPermittedError as error:
        unread.append(error.action)
    principal = _role(snapshot, identity["Arn"])
    try:
        simulated = _simulate(snapshot, principal, alias.arn)
    except (NotPermittedError, AwsError):  # such as a role of another account
        unread.append("iam:SimulatePrincipalPolicy")
    is_other = identity["Account"] != alias.account
    return permissions_result(
        principal,
        Evidence(status, policy, simulated, is_other, tuple(unread)),
        refused=warning if snapshot.asked.deployer else failed,
    )


def permissions_result(
    principal: str, evidence: Evidence, *, refused: Callable[..., CheckResult] = failed
) -> CheckResult:
    """Decide on both permissions by the answer, the function's policy and the simulation."""
    decided = {action: _is_allowed(principal, evidence, action) for action in CONDITIONS}
    missing = [action for action, is_allowed in decided.items() if is_allowed is False]
    if missing:
        return refused(
            f"{principal} lacks {' and '.join(missing)}",
            "add the role under [callers] of the environment's file and deploy; in another account "
            "also add both to its own policies (docs/operations.md#who-may-call)",
            missing=missing,
        )
    if all(decided.values()):
        if evidence.status != 403:
            return ok("both are granted")
        return failed(
            "both are granted, but a signed request gets 403",
            "check service control policies, permissions boundaries, session policies, "
            "and the clock of this machine",
        )
    looked = f"no permission for {', '.join(evidence.unread)}"
    if evidence.status == 403:
        return refused(
            f"a signed request gets 403; {looked}",
            "a caller needs lambda:InvokeFunctionUrl, and lambda:InvokeFunction with the condition "
            "lambda:InvokedViaFunctionUrl (docs/operations.md#who-may-call)",
        )
    return skipped(looked)


def _is_allowed(principal: str, evidence: Evidence, action: str) -> bool | None:
    """Return whether an action is allowed; None if it is unknown.

    Either policy is enough in one account; across accounts both have to allow it. A condition of
    the function's policy is taken as met.
    """
    own = granted = None
    if evidence.simulated is not None:
        own = evidence.simulated.get(action) == "allowed"
        if evidence.simulated.get(action) == "explicitDeny":
            return False
    if evidence.policy is not None:
        granted = any(_grants(statement, principal, action) for statement in evidence.policy)
    known = (own, granted)
    if evidence.is_other_account:
        return False if False in known else (None if None in known else True)
    return True if True in known else (None if None in known else False)


def _grants(statement: Mapping[str, Any], principal: str, action: str) -> bool:
    """Return whether a statement of the function's policy grants an action to a caller."""
    given = statement.get("Principal", {})
    names = given if isinstance(given, str) else given.get("AWS", [])
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
    except (NotPermittedError, AwsError):
        return f"arn:{partition}:iam::{account}:role/{name}"


def _simulate(snapshot: Snapshot, principal: str, resource: str) -> dict[str, str]:
    decisions = {}
    for action, (key, kind, value) in CONDITIONS.items():
        answer = snapshot.aws.call(
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
