"""The settings of CloudFront in `[front]`: what AWS would refuse is refused when they are read."""

from typing import Any

import pytest
from pydantic import ValidationError

from embedding_kit.environment import Environment
from embedding_kit.settings import CloudFrontFront, Firewall

MODEL = {"name": "sentence-transformers/all-MiniLM-L6-v2"}
CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/1234abcd"
WEB_ACL = "arn:aws:wafv2:us-east-1:111122223333:global/webacl/company/1234abcd-12ab"


def front(**changes: Any) -> CloudFrontFront:
    """Read the settings as from a file, where lists are lists."""
    return CloudFrontFront.model_validate({"kind": "cloudfront", **changes})


def environment(**changes: Any) -> Environment:
    """Read an environment with CloudFront in front of it."""
    given = {"name": "test", "model": MODEL, "front": {"kind": "cloudfront"}}
    return Environment.model_validate({**given, "region": "eu-central-1", **changes})


def test_the_defaults_are_a_distribution_without_extras() -> None:
    """Keys are in CloudFront's store, and not in the file."""
    made = front()
    assert (made.domain, made.firewall) == (None, None)
    assert made.timeout.total_seconds() == 30


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"timeout": "3m"}, "waits up to 2 minutes for an origin; found: 3m; allowed: whole"),
        ({"timeout": "1500ms"}, "found: 1500ms; allowed: whole seconds, 1s to 2m"),
        (
            {"domain": {"name": "e.example.com", "certificate": CERTIFICATE.replace("us", "eu")}},
            "certificates of one region",
        ),
        (
            {"domain": {"name": "e.example.com", "certificate": CERTIFICATE, "minimum_tls": "1.1"}},
            "'1.2' or '1.3'",
        ),
        (
            {"firewall": {"web_acl": WEB_ACL.replace("global", "regional")}},
            "a distribution takes only web ACLs of CloudFront",
        ),
        ({"firewall": {"web_acl": WEB_ACL.replace("us-east-1", "eu-central-1")}}, "in us-east-1"),
        ({"callers": [{"name": "search"}]}, "Extra inputs are not permitted"),
    ],
)
def test_what_aws_refuses_is_refused(changes: dict[str, Any], message: str) -> None:
    """Each error says what is wrong, or names the key."""
    with pytest.raises(ValidationError) as caught:
        front(**changes)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"region": None}, r"refers to the endpoint by its region; .* allowed: region at the top"),
        (
            {"callers": {"roles": ["arn:aws:iam::111122223333:role/search"]}},
            r"would pass the firewall and the keys of CloudFront; found: \[callers\] with",
        ),
        ({"callers": {"organization": "o-a1b2c3d4e5"}}, "would pass the firewall and the keys"),
        ({"cors": {"origins": ["https://example.com"]}}, "preflight request has no key"),
    ],
)
def test_what_a_distribution_excludes_is_refused(changes: dict[str, Any], message: str) -> None:
    """Only the distribution may call the URL, and a browser cannot call through it."""
    assert isinstance(environment().front, CloudFrontFront)
    with pytest.raises(ValidationError, match=message):
        environment(**changes)


@pytest.mark.parametrize(
    ("firewall", "rules"),
    [
        ({}, 4),
        ({"managed_rules": False}, 1),
        ({"addresses": ["203.0.113.0/24"], "blocked_addresses": ["2001:db8::/32"]}, 6),
        ({"countries": ["DE", "FR"], "blocked_countries": ["AT"]}, 6),
    ],
)
def test_each_list_is_a_rule(firewall: dict[str, Any], rules: int) -> None:
    """AWS bills each rule."""
    assert Firewall.model_validate(firewall).rules == rules


@pytest.mark.parametrize(
    ("firewall", "message"),
    [
        ({"addresses": ["203.0.113.7/24"]}, "a network's address ends where its prefix does"),
        ({"addresses": ["example.com"]}, "allowed: a network such as 203.0.113.0/24"),
        ({"blocked_addresses": ["0.0.0.0/0"]}, "AWS WAF takes no network of all addresses"),
        ({"blocked_addresses": ["203.0.113.7", "203.0.113.7/32"]}, "a value is given twice"),
        ({"countries": ["de"]}, "countries.0"),
        ({"countries": ["DE", "DE"]}, "a value is given twice; found: DE"),
        ({"blocked_countries": [chr(65 + i // 26) + chr(65 + i % 26) for i in range(51)]}, "50"),
        ({"web_acl": WEB_ACL, "countries": ["DE"]}, "its own rules; found: web_acl with countries"),
    ],
)
def test_lists_that_waf_refuses_are_refused(firewall: dict[str, Any], message: str) -> None:
    """The same lists are for API Gateway."""
    with pytest.raises(ValidationError) as caught:
        Firewall.model_validate(firewall)
    assert message in str(caught.value)
