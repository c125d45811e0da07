"""The function's VPC, and calls by Lambda's Invoke, where they are switched on."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from embedding_client.doctor.facts import Facts
from embedding_client.doctor.findings import Finding, SkippedError, ill, ok, warning
from embedding_client.doctor.outside import NoCredentialsError, Reply
from embedding_client.doctor.permissions import CONDITIONS
from embedding_client.errors import CredentialsError
from embedding_client.invoke import function_target

__all__ = ["check_invoke", "check_subnets", "judge_invoke", "judge_subnets"]

_INVOKE = "lambda:InvokeFunction"
_HELLO = b'{"text": "hello world"}'
#: A network interface takes one address of a subnet. Lambda makes more of them as a function grows.
_FEW_ADDRESSES = 8
_DOCS = "docs/network.md"


def check_subnets(facts: Facts) -> Finding:
    """Read the free addresses and the zones of the function's subnets."""
    network = facts.function().get("VpcConfig", {})
    if not network.get("SubnetIds"):
        raise SkippedError("the function is in no VPC")
    answer = facts.aws.call("ec2", "describe_subnets", SubnetIds=network["SubnetIds"])
    return judge_subnets(answer["Subnets"])


def judge_subnets(subnets: Sequence[Mapping[str, Any]]) -> Finding:
    """Judge whether Lambda can make network interfaces in the subnets."""
    free = {subnet["SubnetId"]: subnet["AvailableIpAddressCount"] for subnet in subnets}
    zones = {subnet["AvailabilityZone"] for subnet in subnets}
    fewest = min(free, key=lambda name: free[name])
    found = (
        f"{len(free)} in {len(zones)} Availability Zone{'s' if len(zones) > 1 else ''}, at least "
        f"{free[fewest]:,} free addresses"
    )
    data = {"free": free, "zones": sorted(zones)}
    if not free[fewest]:
        return ill(
            f"{fewest} has no free address; {found}", f"use a larger subnet: {_DOCS}", **data
        )
    if free[fewest] < _FEW_ADDRESSES:
        return warning(f"{fewest}: {found}", f"use a larger subnet: {_DOCS}", **data)
    if len(zones) == 1:
        return warning(found, f"add a subnet of another Availability Zone: {_DOCS}", **data)
    return ok(found, **data)


def check_invoke(facts: Facts) -> Finding:
    """Send the signed request again by Lambda's Invoke, if callers may use it."""
    alias = facts.alias()
    if not any(_invokes(statement) for statement in facts.policy()):
        raise SkippedError("[callers] has no invoke")
    by_url = facts.answered()
    target = function_target(alias.arn)
    request = target.request("POST", "/", _HELLO, delay=0.0)
    try:
        sent = facts.outside.web.send(request.method, request.url, request.content)
    except CredentialsError as error:
        raise NoCredentialsError(str(error)) from error
    except httpx.HTTPError as error:
        return judge_invoke(f"{type(error).__name__} at {target.host}", by_url)
    received = httpx.Response(sent.status, headers=dict(sent.headers), content=sent.body)
    response = target.response(received)
    return judge_invoke(
        Reply(response.status_code, response.headers, response.content, sent.milliseconds), by_url
    )


def judge_invoke(reply: Reply | str, by_url: Reply) -> Finding:
    """Judge the answer by Invoke, or the reason why there is none, beside that of the URL."""
    if isinstance(reply, str):
        return warning(f"no answer ({reply})", f"compare the interface endpoint with {_DOCS}")
    if reply.status == 403:
        return warning(
            "Lambda refuses these credentials",
            f"run the doctor as a caller; otherwise see the policies in {_DOCS}",
            status=403,
        )
    if reply.status != 200:
        return ill(f"the status is {reply.status}", f"{_DOCS}", status=reply.status)
    if _vector(reply) != _vector(by_url):
        return ill(
            "another vector than by the URL", "look at `version` and `weights` above", status=200
        )
    milliseconds = round(reply.milliseconds)
    return ok(f"the vector of the URL in {milliseconds:,} ms", milliseconds=milliseconds)


def _invokes(statement: Mapping[str, Any]) -> bool:
    """Return whether a statement of the alias's policy allows Invoke past the URL."""
    if statement.get("Effect") != "Allow" or statement.get("Action") != _INVOKE:
        return False
    by_url = CONDITIONS[_INVOKE][0]
    conditions = statement.get("Condition", {}).values()
    # API Gateway, too, may invoke: it is a service and no caller.
    return by_url not in {key for pairs in conditions for key in pairs} and not (
        isinstance(statement.get("Principal"), dict) and "Service" in statement["Principal"]
    )


def _vector(reply: Reply) -> object:
    try:
        return json.loads(reply.body)["embedding"]
    except (ValueError, KeyError, TypeError):
        return None
