"""The REST API in front of the alias: who may call, what is logged, what API Gateway answers."""

import json
from functools import partial
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk.assertions import Template

from embedding_kit import AlarmSettings, ApiGatewayFront, EmbeddingEndpoint, EmbeddingRestApi
from embedding_kit.rest_api import FORMAT
from tests.embedding_kit import roles
from tests.embedding_kit.endpoints import add_alarms, once
from tests.embedding_kit.roles import HOME, allowed_by, only

ALIAS = f"arn:aws:lambda:us-east-1:{HOME}:function:embedder:live"
API = f"arn:aws:execute-api:us-east-1:{HOME}:abc123"
CALLERS = [
    {"name": "search", "keys": ["1", "2"], "rate": 20, "burst": 40, "monthly_requests": 1000},
    {"name": "import", "rate": 0.5, "burst": 1},
    {"name": "gone", "keys": [], "rate": 1, "burst": 1},
]
#: Replaces references; each resource has one id.
resolved = partial(roles.resolved, one="abc123")
ALARMS = {"Front5xx", "FrontDurationP99", "Front4xx", "FrontThrottled"}


@pytest.fixture(scope="module")
def make(synthesize):
    """Return a function that synthesizes an API with alarms and dashboard, once."""

    @once
    def template(*, alarms: dict[str, str] | None = None, **changes: Any) -> Template:
        settings = ApiGatewayFront.model_validate({"callers": CALLERS, **changes})
        of_alarms = AlarmSettings.model_validate(alarms or {})

        def build(stack: Stack) -> None:
            endpoint = EmbeddingEndpoint.from_embedding_endpoint_attributes(
                stack, "Endpoint", alias_arn=ALIAS, url="https://x.example.com/", name="test"
            )
            front = EmbeddingRestApi(stack, "Front", endpoint=endpoint, settings=settings)
            assert set(add_alarms(stack, front, of_alarms).alarms) == ALARMS

        return synthesize(build)

    return template


@pytest.fixture(scope="module")
def template(make) -> Template:
    return make()


def test_only_this_apis_stage_may_invoke_only_the_alias(template):
    """An independent evaluator reads the policy that Lambda makes of the permission."""
    permission = resolved(only(template, "AWS::Lambda::Permission"))
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": permission["Principal"]},
                "Action": permission["Action"],
                "Resource": permission["FunctionName"],
                "Condition": {"ArnLike": {"AWS:SourceArn": permission["SourceArn"]}},
            }
        ],
    }

    def asked(source: str, action: str = "lambda:InvokeFunction", resource: str = ALIAS) -> Any:
        return ("apigateway.amazonaws.com", action, resource, {"aws:SourceArn": source})

    post = f"{API}/live/POST/v1/embeddings"
    allowed = [asked(post), asked(f"{API}/live/GET/")]
    refused = [
        asked(f"{API}/test-invoke-stage/POST/"),  # the console's test of a method
        asked(f"{API}/other/POST/"),
        asked(f"{API}x/live/POST/"),
        asked(post.replace(HOME, "444455556666")),
        asked(post, resource=ALIAS.removesuffix(":live")),
        asked(post, action="lambda:InvokeFunctionUrl"),
        asked(post, action="lambda:UpdateFunctionCode"),
    ]
    assert allowed_by(allowed + refused, resource_policy=policy) == allowed


def test_a_new_key_leaves_the_first_as_it_is(make):
    """A key is replaced by adding a second, changing the caller, and removing the first."""

    def keys(*labels: str) -> dict[str, Any]:
        callers = [{"name": "search", "keys": list(labels), "rate": 1, "burst": 1}]
        template = make(callers=callers)
        return {
            **template.find_resources("AWS::ApiGateway::ApiKey"),
            **template.find_resources("AWS::ApiGateway::UsagePlanKey"),
        }

    old_key, both_keys, new_key = keys("1"), keys("1", "2"), keys("2")
    assert old_key.items() <= both_keys.items()
    assert new_key.items() <= both_keys.items()
    assert not old_key.keys() & new_key.keys()


def test_the_access_log_has_no_body_query_key_or_path(template):
    """It has the key's id, which is no secret, and the function's request id."""
    stage = only(template, "AWS::ApiGateway::Stage")
    fields = json.loads(stage["AccessLogSetting"]["Format"])
    assert fields == json.loads(FORMAT)
    variables = set(fields.values())
    assert {"$context.requestId", "$context.integration.requestId"} <= variables
    assert "$context.identity.apiKeyId" in variables
    assert not variables & {
        "$context.identity.apiKey",
        "$context.path",
        "$context.error.message",
        "$context.authorizer.principalId",
    }
    assert all(value.startswith("$context.") for value in variables)
    # Execution logs, which may have bodies, are off.
    assert "MethodSettings" not in stage
    assert only(template, "AWS::Logs::LogGroup")["RetentionInDays"] == 90


def test_a_changed_api_is_deployed_again(make):
    """A REST API changes for callers with a new deployment; new callers need none."""

    def deployment(**changes: Any) -> str:
        (logical_id,) = make(**changes).find_resources("AWS::ApiGateway::Deployment")
        return str(logical_id)

    fewer = deployment(callers=CALLERS[:1])
    changed = [
        deployment(timeout="10s"),
        deployment(authorizer=f"arn:aws:lambda:us-east-1:{HOME}:function:authorize"),
    ]
    assert fewer == deployment()
    assert len({fewer, *changed}) == 3


def test_a_private_api_answers_its_vpc_endpoints_alone(make):
    """An independent evaluator reads the API's policy."""
    ours = "vpce-0123456789abcdef0"
    private = make(vpc_endpoints=[ours])
    api = resolved(only(private, "AWS::ApiGateway::RestApi"))
    assert api["EndpointConfiguration"] == {"Types": ["PRIVATE"], "VpcEndpointIds": [ours]}
    # API Gateway completes the short form when it saves the policy.
    policy = json.loads(json.dumps(api["Policy"]).replace("execute-api:/*", f"{API}/*"))

    def asked(endpoint: str | None, action: str = "execute-api:Invoke") -> Any:
        context = {"aws:SourceVpce": endpoint} if endpoint else {}
        return (f"arn:aws:iam::{HOME}:role/anyone", action, f"{API}/live/POST/embed", context)

    cases = [
        asked(ours),
        asked("vpce-0aaaaaaaaaaaaaaa1"),
        asked(None),
        asked(ours, "execute-api:ManageConnections"),
    ]
    assert allowed_by(cases, resource_policy=policy) == cases[:1]


@pytest.mark.parametrize(
    ("settings", "timeout", "milliseconds"),
    [
        ({}, "29s", 14_500),
        ({"duration_p99": "2s"}, "29s", 2000),
        # The function's own threshold may be above what API Gateway waits.
        ({"duration_p99": "20s"}, "10s", 5000),
    ],
)
def test_the_threshold_of_the_duration_can_be_exceeded(make, settings, timeout, milliseconds):
    """API Gateway ends a request at its own timeout."""
    make(alarms=settings, timeout=timeout).has_resource_properties(
        "AWS::CloudWatch::Alarm",
        {"ExtendedStatistic": "p99", "MetricName": "Latency", "Threshold": milliseconds},
    )


@pytest.mark.parametrize(
    "certificate", [None, f"arn:aws:acm:us-east-1:{HOME}:certificate/1234abcd"]
)
def test_a_hosted_zone_gets_the_record_and_validates_a_missing_certificate(make, certificate):
    """The record leads to the domain name of the API; a given certificate is used."""
    name, zone = "embeddings.example.com", "Z0123456789ABCDEFGHIJ"
    domain = {"name": name, "hosted_zone": zone}
    template = make(domain={**domain, "certificate": certificate} if certificate else domain)
    record = only(template, "AWS::Route53::RecordSet")
    assert (record["Name"], record["HostedZoneId"], record["Type"]) == (f"{name}.", zone, "A")
    ((logical_id, domain_name),) = template.find_resources("AWS::ApiGateway::DomainName").items()
    assert record["AliasTarget"]["DNSName"] == {"Fn::GetAtt": [logical_id, "RegionalDomainName"]}
    certificates = template.find_resources("AWS::CertificateManager::Certificate")
    if certificate:
        assert certificates == {}
        assert domain_name["Properties"]["RegionalCertificateArn"] == certificate
        return
    ((logical_id, issued),) = certificates.items()
    assert domain_name["Properties"]["RegionalCertificateArn"] == {"Ref": logical_id}
    assert issued["Properties"]["DomainValidationOptions"] == [
        {"DomainName": name, "HostedZoneId": zone}
    ]
