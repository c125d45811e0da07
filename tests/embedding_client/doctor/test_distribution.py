"""The checks of CloudFront in front of the endpoint."""

import json
import ssl
from datetime import timedelta

import httpx
import pytest

from embedding_client.doctor.distribution import (
    check_certificate,
    check_direct,
    check_distribution,
    check_firewall,
    judge_direct,
    judge_distribution,
    judge_firewall,
)
from embedding_client.doctor.facts import PARTS
from embedding_client.doctor.findings import SkippedError, State
from embedding_client.doctor.outside import Certificate, Reply

from .conftest import ACCOUNT, NOW, URL, deployed, stack

HOST = URL.removeprefix("https://")
FRONT = "https://d111111abcdef8.cloudfront.net/"
ARN = f"arn:aws:cloudfront::{ACCOUNT}:distribution/E123"


def in_front(aws, **outputs):
    """Answer with an environment that has a distribution."""
    deployed(aws)
    outputs = outputs or {"Url": FRONT, "DistributionId": "E123"}
    for name in PARTS:
        if name == "Front":
            aws.answers(
                "cloudformation", "describe_stacks", {"Stacks": [stack("Front", **outputs)]}
            )
        else:
            aws.refuses("cloudformation", "describe_stacks", "ValidationError")


def described(status="Deployed", *, enabled=True, host=HOST, signer="E5", web_acl=""):
    """Describe a distribution as CloudFront does."""
    behavior = {"TargetOriginId": "a", "ViewerProtocolPolicy": "https-only"}
    return {
        "Id": "E123",
        "ARN": ARN,
        "Status": status,
        "LastModifiedTime": NOW,
        "InProgressInvalidationBatches": 0,
        "DomainName": "d111111abcdef8.cloudfront.net",
        "ActiveTrustedSigners": {"Enabled": False, "Quantity": 0},
        "ActiveTrustedKeyGroups": {"Enabled": False, "Quantity": 0},
        "DistributionConfig": {
            "CallerReference": "a",
            "Comment": "",
            "Enabled": enabled,
            "WebACLId": web_acl,
            "DefaultCacheBehavior": behavior,
            "Origins": {
                "Quantity": 1,
                "Items": [{"Id": "a", "DomainName": host, "OriginAccessControlId": signer}],
            },
        },
    }


def permission(action, source=ARN, principal="cloudfront.amazonaws.com"):
    """Return a statement as Lambda writes it."""
    return {
        "Effect": "Allow",
        "Principal": {"Service": principal},
        "Action": action,
        "Condition": {"ArnLike": {"AWS:SourceArn": source}},
    }


OURS = [permission("lambda:InvokeFunctionUrl"), permission("lambda:InvokeFunction")]


@pytest.mark.parametrize(
    "check", [check_distribution, check_certificate, check_firewall, check_direct]
)
def test_without_cloudfront_the_checks_are_skipped(aws, facts, check):
    """API Gateway's stack has an address and no distribution."""
    in_front(aws, Url="https://abc123.execute-api.eu-central-1.amazonaws.com/live/")
    with pytest.raises(SkippedError, match="CloudFront is not in front of the endpoint"):
        check(facts())


@pytest.mark.parametrize(
    ("distribution", "state", "words"),
    [
        (described(), State.OK, "deployed, and signs"),
        (described("InProgress"), State.WARNING, "it is InProgress"),
        (described(enabled=False), State.ILL, "disabled"),
        (described(host="other.lambda-url.eu-central-1.on.aws"), State.ILL, "its origin is other"),
        (described(signer=""), State.ILL, "does not sign"),
        (None, State.ILL, "does not exist"),
    ],
)
def test_the_distribution(distribution, state, words):
    """It is deployed and signs requests to the function URL of today."""
    finding = judge_distribution(distribution, HOST)
    assert finding.state is state
    assert words in finding.found
    assert bool(finding.advice) is (state is not State.OK)


def test_the_distribution_is_read(aws, facts):
    """Its origin is compared with the endpoint's own URL."""
    in_front(aws)
    aws.answers("cloudfront", "get_distribution", {"Distribution": described()}, {"Id": "E123"})
    assert check_distribution(facts()).state is State.OK


def test_a_deleted_distribution_is_ill(aws, facts):
    """The stack still names it."""
    in_front(aws)
    aws.refuses("cloudfront", "get_distribution", "NoSuchDistribution")
    assert check_distribution(facts()).state is State.ILL


@pytest.mark.parametrize(("days", "state"), [(100, State.OK), (10, State.WARNING)])
def test_the_certificate_is_that_of_callers(aws, facts, days, state):
    """By a connection to the address in the stack's output."""
    in_front(aws, Url="https://embeddings.example.com/", DistributionId="E123")
    asked = []

    def handshake(host, port):
        asked.append((host, port))
        return Certificate("TLSv1.3", NOW + timedelta(days=days))

    assert check_certificate(facts(handshake=handshake)).state is state
    assert asked == [("embeddings.example.com", 443)]


def test_a_wrong_certificate_is_ill(aws, facts):
    """Or a name that leads elsewhere."""
    in_front(aws)

    def handshake(host, port):
        raise ssl.SSLCertVerificationError("the name differs")

    finding = check_certificate(facts(handshake=handshake))
    assert finding.state is State.ILL
    assert "DomainTarget" in finding.advice


@pytest.mark.parametrize(
    ("status", "state"), [(401, State.OK), (403, State.ILL), (502, State.WARNING)]
)
def test_the_firewall_lets_a_megabyte_of_html_pass(aws, facts, status, state):
    """It decides before the check of keys, whose 401 shows that the body passed."""
    sent = []

    def answer(request):
        sent.append(request)
        return httpx.Response(status)

    in_front(aws)
    web_acl = f"arn:aws:wafv2:us-east-1:{ACCOUNT}:global/webacl/a/b"
    aws.answers("cloudfront", "get_distribution", {"Distribution": described(web_acl=web_acl)})
    assert check_firewall(facts(answer)).state is state
    (request,) = sent
    assert str(request.url) == FRONT
    assert len(request.content) > 1_000_000
    assert b"<script>" in request.content
    assert "authorization" not in request.headers


def test_without_a_web_acl_nothing_is_sent(aws, facts):
    """A firewall is an option."""
    in_front(aws)
    aws.answers("cloudfront", "get_distribution", {"Distribution": described()})
    with pytest.raises(SkippedError, match="no web ACL"):
        check_firewall(facts(lambda _: pytest.fail("a request was sent")))


def test_no_answer_of_the_firewall_is_a_warning():
    """Other checks find the reason."""
    assert judge_firewall("ConnectError").state is State.WARNING
    assert judge_firewall(Reply(401, {}, b"", 1.0)).state is State.OK


@pytest.mark.parametrize(
    ("statements", "state", "words"),
    [
        (OURS, State.OK, "only the distribution"),
        (OURS[:1], State.ILL, "lacks lambda:InvokeFunction,"),
        ([], State.ILL, "lacks lambda:InvokeFunction and lambda:InvokeFunctionUrl"),
        ([permission("lambda:InvokeFunctionUrl", ARN + "4"), OURS[1]], State.ILL, "lacks"),
        (
            [*OURS, {"Action": "lambda:InvokeFunctionUrl", "Principal": "*"}],
            State.ILL,
            "these may call: *",
        ),
        (
            [*OURS, permission("lambda:InvokeFunction", principal="apigateway.amazonaws.com")],
            State.ILL,
            "apigateway.amazonaws.com",
        ),
        # CloudFront without a distribution is any distribution of any account.
        (
            [*OURS, {**OURS[0], "Condition": {}}],
            State.ILL,
            "cloudfront.amazonaws.com",
        ),
    ],
)
def test_only_the_distribution_may_call(statements, state, words):
    """Its two permissions are there, and no others."""
    finding = judge_direct(statements, f":{ACCOUNT}:distribution/E123")
    assert finding.state is state
    assert words in finding.found


def test_the_policy_of_the_alias_is_read(aws, facts):
    """Without a policy, the distribution itself is refused."""
    for answer, state in (
        ({"Policy": json.dumps({"Statement": OURS})}, State.OK),
        (None, State.ILL),
    ):
        in_front(aws)
        if answer:
            asked = {"FunctionName": "embedder", "Qualifier": "live"}
            aws.answers("lambda", "get_policy", answer, asked)
        else:
            aws.refuses("lambda", "get_policy", "ResourceNotFoundException")
        assert check_direct(facts()).state is state
