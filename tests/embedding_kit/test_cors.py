"""Test calls from web pages: off by default, and Lambda's CORS configuration if they are on."""

from embedding_kit import Cors, Experiment
from tests.embedding_kit.roles import of_kind

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
    urls = of_kind(template, "AWS::Lambda::Url")
    assert [url["Cors"]["AllowOrigins"] for url in urls] == [[PAGE], [PAGE]]
