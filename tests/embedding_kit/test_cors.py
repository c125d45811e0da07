"""Test calls from web pages: off by default, and Lambda's CORS configuration if they are on."""

import pytest
from pydantic import ValidationError

from embedding_kit import Cors, Experiment

PAGE = "https://example.com"
#: The headers that a browser lists in the preflight of a signed request.
SIGNING = [
    "authorization",
    "content-type",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
]


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


def test_the_candidates_url_has_the_same(endpoint_template):
    """A page that compares two versions calls both URLs."""
    template = endpoint_template(cors=Cors(origins=(PAGE,)), experiment=Experiment(version=7))
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
        ({"origins": ("*", PAGE)}, "no other is listed with it"),
        ({"origins": (PAGE,) * 101}, "at most 100 items"),
        ({"origins": (PAGE,), "credentials": True}, "Extra inputs"),
    ],
)
def test_what_lambda_would_refuse_is_refused(wrong, message):
    """A value that Lambda would refuse is refused when the settings are read."""
    with pytest.raises(ValidationError, match=message):
        Cors(**wrong)
