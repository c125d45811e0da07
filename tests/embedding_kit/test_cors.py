"""Test calls from web pages: off by default, and Lambda's CORS configuration if they are on."""

from datetime import timedelta

import pytest
from aws_cdk.assertions import Match
from pydantic import ValidationError

from embedding_kit import AliasExperiment, Cors, EmbeddingEndpoint

PAGE = "https://example.com"
#: The headers that a browser lists in the preflight of a signed request.
SIGNING = [
    "authorization",
    "content-type",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
]


def test_no_page_may_call_by_default(endpoint_template):
    """Without the setting, the URL answers no preflight request."""
    endpoint_template().has_resource_properties("AWS::Lambda::Url", {"Cors": Match.absent()})


def test_a_listed_page_may_call_with_a_signature(endpoint_template):
    """All signature headers are allowed, and the useful response headers are exposed."""
    endpoint_template(cors=Cors(origins=(PAGE,))).has_resource_properties(
        "AWS::Lambda::Url",
        {
            "AuthType": "AWS_IAM",
            "Cors": {
                "AllowOrigins": [PAGE],
                "AllowMethods": ["GET", "POST"],
                "AllowHeaders": SIGNING,
                "ExposeHeaders": ["x-request-id", "x-vector-space"],
                "MaxAge": 3600,
            },
        },
    )


def test_every_setting_reaches_lambda(endpoint_template):
    """Further headers are added to those of the signature, each once."""
    cors = Cors(
        origins=("*",),
        methods=("POST", "HEAD"),
        headers=("X-Trace", "Authorization"),
        max_age=timedelta(days=1),
    )
    endpoint_template(cors=cors).has_resource_properties(
        "AWS::Lambda::Url",
        {
            "Cors": {
                "AllowOrigins": ["*"],
                "AllowMethods": ["POST", "HEAD"],
                "AllowHeaders": [*SIGNING, "x-trace"],
                "ExposeHeaders": ["x-request-id", "x-vector-space"],
                "MaxAge": 86400,
            }
        },
    )


def test_the_candidates_url_has_the_same(endpoint_template):
    """A page that compares two versions calls both URLs."""
    template = endpoint_template(
        cors=Cors(origins=(PAGE,)), experiment=AliasExperiment(alias="next", version=7)
    )
    urls = template.find_resources("AWS::Lambda::Url").values()
    assert [url["Properties"]["Cors"]["AllowOrigins"] for url in urls] == [[PAGE], [PAGE]]


@pytest.mark.parametrize(
    "origin", [PAGE, "http://localhost:3000", "*", "https://a.b-c.example", "http://127.0.0.1:8080"]
)
def test_an_origin_is_scheme_and_host(origin):
    """An origin has a scheme, a host and an optional port."""
    assert Cors(origins=(origin,)).origins == (origin,)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "Field required"),
        ({"origins": ()}, "at least 1 item"),
        ({"origins": ("https://example.com/",)}, "should match pattern"),
        ({"origins": ("https://example.com/page",)}, "should match pattern"),
        ({"origins": ("example.com",)}, "should match pattern"),
        ({"origins": ("https://Example.com",)}, "should match pattern"),
        ({"origins": ("https://*.example.com",)}, "should match pattern"),
        ({"origins": ("https://" + "a" * 250,)}, "at most 253 characters"),
        ({"origins": ("*", PAGE)}, "no other is listed beside it"),
        ({"origins": (PAGE,) * 101}, "at most 100 items"),
        ({"origins": (PAGE,), "methods": ()}, "at least 1 item"),
        ({"origins": (PAGE,), "methods": ("OPTIONS",)}, "'GET', 'HEAD' or 'POST'"),
        ({"origins": (PAGE,), "methods": ("post",)}, "'GET', 'HEAD' or 'POST'"),
        ({"origins": (PAGE,), "headers": ("x y",)}, "should match pattern"),
        ({"origins": (PAGE,), "headers": ("",)}, "should match pattern"),
        ({"origins": (PAGE,), "max_age": timedelta(days=1, seconds=1)}, "up to a day"),
        ({"origins": (PAGE,), "max_age": "1500ms"}, "whole seconds"),
        ({"origins": (PAGE,), "max_age": "2d"}, "up to a day"),
        ({"origins": (PAGE,), "credentials": True}, "Extra inputs"),
    ],
)
def test_what_lambda_would_refuse_is_refused(wrong, message):
    """A value that Lambda would refuse is refused when the settings are read."""
    with pytest.raises(ValidationError, match=message):
        Cors(**wrong)


@pytest.mark.parametrize("age", ["1s", "1d", "10m"])
def test_the_ages_at_the_bounds_are_taken(age):
    """The maximum age may be from one second to one day."""
    assert Cors(origins=(PAGE,), max_age=age).max_age.total_seconds() in {1, 600, 86400}


def test_the_setting_is_one_of_the_construct():
    """Another app passes CORS settings to the construct, as it passes callers."""
    assert "cors" in EmbeddingEndpoint.__init__.__annotations__
