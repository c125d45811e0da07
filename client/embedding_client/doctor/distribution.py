"""CloudFront in front of the endpoint: distribution, certificate, firewall, direct calls."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from embedding_client.doctor.access import judge_certificate
from embedding_client.doctor.facts import Facts
from embedding_client.doctor.findings import Finding, SkippedError, ill, ok, warning
from embedding_client.doctor.outside import Reply

__all__ = [
    "check_certificate",
    "check_direct",
    "check_distribution",
    "check_firewall",
    "judge_direct",
    "judge_distribution",
    "judge_firewall",
]

_PAGE = "docs/cloudfront.md"
#: More than the 8 KB from which AWS's core rule set blocks bodies, and with what it takes for HTML.
_TEXT = "<script>alert(1)</script> " * 40_000
#: The two permissions that a call of a function URL needs.
_ACTIONS = frozenset({"lambda:InvokeFunctionUrl", "lambda:InvokeFunction"})


def check_distribution(facts: Facts) -> Finding:
    """Read the distribution's configuration and state."""
    answer = facts.aws.find(
        "cloudfront", "get_distribution", missing=["NoSuchDistribution"], Id=_id(facts)
    )
    host = urlsplit(facts.outputs().get("Url", "")).hostname or ""
    return judge_distribution((answer or {}).get("Distribution"), host)


def judge_distribution(distribution: Mapping[str, Any] | None, host: str) -> Finding:
    """Judge a distribution, whose origin must be the function URL's host, with signatures."""
    if distribution is None:
        return ill("it does not exist", "deploy the environment again")
    config = distribution["DistributionConfig"]
    if not config["Enabled"]:
        return ill("it is disabled", "enable it, for example with `scripts/deploy`")
    (origin, *_) = config["Origins"]["Items"]
    if origin["DomainName"] != host:
        return ill(
            f"its origin is {origin['DomainName']}, and the function URL is {host}",
            f"deploy it with another timeout: {_PAGE}#limits",
        )
    if not origin.get("OriginAccessControlId"):
        return ill("it does not sign requests", "deploy it again: the function refuses them")
    if distribution["Status"] != "Deployed":
        return warning(f"it is {distribution['Status']}", "wait some minutes, and run it again")
    return ok("deployed, and signs requests to the function URL", status="Deployed")


def check_certificate(facts: Facts) -> Finding:
    """Connect to the address of the distribution with TLS, as callers do."""
    _id(facts)
    host = urlsplit(facts.output("Front", "Url") or "").hostname or ""
    try:
        certificate = facts.outside.handshake(host, 443)
    except OSError as error:  # with those of TLS
        return ill(
            f"no TLS connection to {host} ({error})",
            "compare your domain's DNS record with the output DomainTarget, and the certificate "
            "with the domain's name",
        )
    return judge_certificate(certificate, facts.outside.now())


def check_firewall(facts: Facts) -> Finding:
    """Send a long text that looks like HTML, without a key, past the web ACL."""
    answer = facts.aws.call("cloudfront", "get_distribution", Id=_id(facts))
    web_acl = answer["Distribution"]["DistributionConfig"].get("WebACLId")
    if not web_acl:
        raise SkippedError("the distribution has no web ACL")
    url = facts.output("Front", "Url") or ""
    body = json.dumps({"text": _TEXT}).encode()
    try:
        return judge_firewall(facts.outside.web.send("POST", url, body, signed=False))
    except httpx.HTTPError as error:
        return judge_firewall(type(error).__name__)


def judge_firewall(reply: Reply | str) -> Finding:
    """Judge the answer: the web ACL comes before the check of keys, which answers 401."""
    if isinstance(reply, str):
        return warning(f"no answer ({reply})", "see certificate")
    size = f"{len(_TEXT) // 1_000_000} MB of text with <script>"
    if reply.status == 401:
        return ok(f"a web ACL is attached, and lets {size} pass", status=401)
    if reply.status == 403:
        return ill(
            f"the web ACL blocks {size}, or this machine's address",
            f"let its rules on bodies count and not block: {_PAGE}#firewall",
            status=403,
        )
    return warning(f"{reply.status} instead of 401", "see front", status=reply.status)


def check_direct(facts: Facts) -> Finding:
    """Read who may call the function URL past the distribution."""
    distribution, alias = _id(facts), facts.alias()
    answer = facts.aws.find(
        "lambda",
        "get_policy",
        missing=["ResourceNotFoundException"],
        FunctionName=alias.function,
        Qualifier=alias.name,
    )
    statements = json.loads(answer["Policy"])["Statement"] if answer else []
    return judge_direct(statements, f":{alias.account}:distribution/{distribution}")


def judge_direct(statements: Sequence[Mapping[str, Any]], distribution: str) -> Finding:
    """Judge the statements of the alias's policy: they must name the distribution alone.

    Args:
        statements: The statements.
        distribution: The end of the distribution's ARN.
    """
    ours = [one for one in statements if _source(one).endswith(distribution)]
    missing = sorted(_ACTIONS - {str(one["Action"]) for one in ours})
    if missing:
        return ill(
            f"the distribution lacks {' and '.join(missing)}, so callers get 403",
            "deploy the environment again",
        )
    others = sorted({str(one.get("Principal")) for one in statements if one not in ours})
    if others:
        return ill(
            f"past the distribution, these may call: {', '.join(others)}",
            "remove their permissions from the alias's policy (aws lambda remove-permission)",
        )
    return ok("only the distribution may call the function URL")


def _id(facts: Facts) -> str:
    """Return the distribution's id, or skip."""
    found = facts.output("Front", "DistributionId")
    if found is None:
        raise SkippedError("CloudFront is not in front of the endpoint")
    return found


def _source(statement: Mapping[str, Any]) -> str:
    """Return the ARN that a statement for CloudFront is limited to; "" for another statement."""
    principal = statement.get("Principal")
    if not isinstance(principal, dict) or principal.get("Service") != "cloudfront.amazonaws.com":
        return ""
    conditions = statement.get("Condition", {})
    for operator in ("ArnLike", "ArnEquals", "StringEquals", "StringLike"):
        for key, value in conditions.get(operator, {}).items():
            if key.lower() == "aws:sourcearn":
                return str(value)
    return ""
