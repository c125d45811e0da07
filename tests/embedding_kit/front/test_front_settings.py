"""The settings of `[front]`: what AWS would refuse is refused when they are read."""

from typing import Any

import pytest
from pydantic import ValidationError

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.settings import ApiGatewayFront

CALLER: dict[str, Any] = {"name": "search", "rate": 20, "burst": 40}
CERTIFICATE = "arn:aws:acm:eu-central-1:111122223333:certificate/1234abcd"
DOMAIN = {"name": "embeddings.example.com", "certificate": CERTIFICATE}
WEB_ACL = "arn:aws:wafv2:eu-central-1:111122223333:regional/webacl/company/1234abcd-12ab"
MODEL = {"name": "sentence-transformers/all-MiniLM-L6-v2"}


def front(**changes: Any) -> ApiGatewayFront:
    """Read the settings as from a file, where lists are lists."""
    return ApiGatewayFront.model_validate({"callers": [CALLER], **changes})


def test_the_defaults_are_a_public_api_without_extras() -> None:
    """Only the callers are required, with their rate and burst."""
    made = front()
    assert not made.private
    assert (made.domain, made.firewall, made.authorizer) == (None, None, None)
    assert not made.manage_log_role
    (caller,) = made.callers
    assert caller.keys == ("1",)
    assert caller.monthly_requests is None


@pytest.mark.parametrize("keys", [[], ["1"], ["2026-10", "2026-11"]])
def test_a_caller_has_up_to_two_keys(keys: list[str]) -> None:
    """Two keys replace one without an interruption; without one the caller is refused."""
    assert front(callers=[{**CALLER, "keys": keys}]).callers[0].keys == tuple(keys)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"callers": []}, "at least 1 item"),
        ({"callers": [CALLER, CALLER]}, "a caller is listed twice; found: search"),
        ({"callers": [{**CALLER, "name": "Search"}]}, "callers.0.name"),
        ({"callers": [{**CALLER, "name": "a--b"}]}, "callers.0.name"),
        ({"callers": [{**CALLER, "keys": ["1", "2", "3"]}]}, "at most 2 items"),
        ({"callers": [{**CALLER, "keys": ["1", "1"]}]}, "a value is given twice; found: 1"),
        ({"callers": [{**CALLER, "rate": 0}]}, "greater than 0"),
        ({"callers": [{**CALLER, "burst": 0}]}, "greater than or equal to 1"),
        ({"callers": [{**CALLER, "monthly_requests": 0}]}, "greater than or equal to 1"),
        # A quota is added to a rate and a burst, and does not replace them.
        ({"callers": [{"name": "search", "monthly_requests": 1000}]}, "callers.0.rate"),
        ({"vpc_endpoints": ["vpc-0123456789abcdef0"]}, "vpc_endpoints.0"),
        (
            {"vpc_endpoints": ["vpce-0123456789abcdef0"], "domain": DOMAIN},
            "names of its VPC endpoints; found: vpc_endpoints with domain; allowed: one of them",
        ),
        (
            {"domain": {"name": "embeddings.example.com"}},
            "a domain name needs a certificate; found: neither certificate nor hosted_zone",
        ),
        ({"domain": {**DOMAIN, "hosted_zone": "example.com"}}, "domain.hosted_zone"),
        ({"timeout": "6m"}, "up to 5 minutes with a higher quota; found: 6m"),
        ({"timeout": "1500ms"}, "found: 1500ms; allowed: whole seconds, 1s to 5m"),
        (
            {"firewall": {"web_acl": WEB_ACL, "requests_per_five_minutes": 100}},
            "its own rules; found: web_acl with requests_per_five_minutes; allowed: web_acl alone",
        ),
        (
            {"firewall": {"web_acl": WEB_ACL.replace("regional", "global")}},
            "a web ACL of CloudFront cannot protect a REST API",
        ),
        ({"firewall": {"requests_per_five_minutes": 9}}, "greater than or equal to 10"),
        ({"authorizer": "authorize"}, "authorizer"),
        ({"endpoint": "edge"}, "Extra inputs are not permitted"),
    ],
)
def test_what_aws_refuses_is_refused(changes: dict[str, Any], message: str) -> None:
    """Each error says what is wrong, or names the key."""
    with pytest.raises(ValidationError) as caught:
        front(**changes)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "key"),
    [({"domain": DOMAIN}, "domain.certificate"), ({"firewall": {"web_acl": WEB_ACL}}, "web_acl")],
)
def test_certificate_and_web_acl_are_of_the_environments_region(
    changes: dict[str, Any], key: str
) -> None:
    """A regional API cannot use those of another region; an unknown region is not checked."""
    table = {"callers": [CALLER], **changes}

    def environment(**place: str) -> EnvironmentSettings:
        return EnvironmentSettings.model_validate(
            {"name": "test", "model": MODEL, "front": table, **place}
        )

    assert environment().front == environment(region="eu-central-1").front
    with pytest.raises(ValidationError, match=rf"{key} = arn.* allowed: an ARN in us-east-1"):
        environment(region="us-east-1")


def test_an_authorizer_is_of_the_environments_account() -> None:
    """API Gateway's permission to call it is created in the environment's own account."""
    function = "arn:aws:lambda:eu-central-1:111122223333:function:authorize"
    table = {"callers": [CALLER], "authorizer": function}
    given = {"name": "test", "model": MODEL, "front": table, "region": "eu-central-1"}
    assert EnvironmentSettings.model_validate({**given, "account": "111122223333"}).front
    with pytest.raises(ValidationError, match=r"front\.authorizer = .*allowed: a function in"):
        EnvironmentSettings.model_validate({**given, "account": "444455556666"})
