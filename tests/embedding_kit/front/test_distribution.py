"""The CloudFront distribution in front of the URL: its permissions, signatures and logs."""

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk.assertions import Template

from embedding_kit import (
    AlarmTopic,
    CloudFrontFront,
    DistributionAccess,
    DistributionAlarms,
    EmbeddingDistribution,
)
from embedding_kit.front.distribution_log import FIELDS
from embedding_kit.front.firewall import MANAGED_RULES
from embedding_kit.monitoring.distribution import distribution_widgets
from tests.embedding_kit.front.template_values import HOME, only, resolved

ROOT = Path(__file__).resolve().parents[3]
ALIAS = f"arn:aws:lambda:eu-central-1:{HOME}:function:embedder:live"
HOST = "abc.lambda-url.eu-central-1.on.aws"
CERTIFICATE = f"arn:aws:acm:us-east-1:{HOME}:certificate/1234abcd"
#: The managed rules that inspect bodies, by AWS's pages of 2026-11:
#: https://docs.aws.amazon.com/waf/latest/developerguide/aws-managed-rule-groups-baseline.html
OF_BODIES = {
    "AWSManagedRulesCommonRuleSet": {
        "SizeRestrictions_BODY",
        "EC2MetaDataSSRF_BODY",
        "GenericLFI_BODY",
        "GenericRFI_BODY",
        "CrossSiteScripting_BODY",
    },
    "AWSManagedRulesKnownBadInputsRuleSet": {
        "JavaDeserializationRCE_BODY",
        "Log4JRCE_BODY",
        "ReactJSRCE_BODY",
    },
    "AWSManagedRulesAmazonIpReputationList": set(),
}


@pytest.fixture(scope="module")
def make(synthesize):
    """Return a function that synthesizes a distribution with its access and alarms, once."""
    made: dict[str, Template] = {}

    def template(**changes: Any) -> Template:
        settings = CloudFrontFront.model_validate({"kind": "cloudfront", **changes})

        def build(stack: Stack) -> None:
            front = EmbeddingDistribution(stack, "Front", host=HOST, name="test", settings=settings)
            DistributionAccess(
                stack,
                "Access",
                alias_arn=ALIAS,
                distribution_id=front.distribution.distribution_id,
            )
            DistributionAlarms(
                stack, "Alarms", front=front, topic=AlarmTopic(stack, "Notices").topic
            )
            dashboard = cloudwatch.Dashboard(stack, "Dashboard")
            dashboard.add_widgets(*distribution_widgets(front))

        key = repr(settings)
        if key not in made:
            made[key] = synthesize(build)
        return made[key]

    return template


@pytest.fixture(scope="module")
def template(make) -> Template:
    return make()


def distribution(template: Template) -> dict[str, Any]:
    """Return the configuration of the distribution."""
    config: dict[str, Any] = only(template, "AWS::CloudFront::Distribution")["DistributionConfig"]
    return config


def test_every_request_is_signed_and_goes_to_the_function_url(template):
    """The signature always replaces the header Authorization, and its host is the URL's own."""
    signer = only(template, "AWS::CloudFront::OriginAccessControl")["OriginAccessControlConfig"]
    assert signer["OriginAccessControlOriginType"] == "lambda"
    assert (signer["SigningBehavior"], signer["SigningProtocol"]) == ("always", "sigv4")
    (origin,) = distribution(template)["Origins"]
    assert origin["DomainName"] == HOST
    (signer_id,) = template.find_resources("AWS::CloudFront::OriginAccessControl")
    assert origin["OriginAccessControlId"] == {"Fn::GetAtt": [signer_id, "Id"]}
    assert origin["CustomOriginConfig"] == {
        "OriginProtocolPolicy": "https-only",
        "OriginReadTimeout": 30,
        "OriginSSLProtocols": ["TLSv1.2"],
    }


def test_nothing_is_cached_and_every_request_is_checked(make, template):
    """The policies are AWS's own; their ids are the same in every account."""
    config = distribution(template)
    assert "CacheBehaviors" not in config
    behavior = config["DefaultCacheBehavior"]
    # https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/using-managed-cache-policies.html
    assert behavior["CachePolicyId"] == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
    # https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/using-managed-origin-request-policies.html
    assert behavior["OriginRequestPolicyId"] == "b689b0a8-53d0-40ab-baf2-68738e2966ac"
    assert behavior["ViewerProtocolPolicy"] == "https-only"
    assert "POST" in behavior["AllowedMethods"]
    (check,) = template.find_resources("AWS::CloudFront::Function")
    assert behavior["FunctionAssociations"] == [
        {"EventType": "viewer-request", "FunctionARN": {"Fn::GetAtt": [check, "FunctionARN"]}}
    ]
    function = only(template, "AWS::CloudFront::Function")
    assert function["AutoPublish"] is True
    assert function["FunctionConfig"]["Runtime"] == "cloudfront-js-2.0"
    (store,) = template.find_resources("AWS::CloudFront::KeyValueStore")
    assert function["FunctionConfig"]["KeyValueStoreAssociations"] == [
        {"KeyValueStoreARN": {"Fn::GetAtt": [store, "Arn"]}}
    ]
    # No key is in a template: the store begins empty, and refuses all.
    assert "ImportSource" not in only(template, "AWS::CloudFront::KeyValueStore")
    (origin,) = distribution(make(timeout="60s"))["Origins"]
    assert origin["CustomOriginConfig"]["OriginReadTimeout"] == 60


def test_only_this_distribution_may_call_only_the_url_of_the_alias(template, question, may):
    """An independent evaluator reads the policy that Lambda makes of the two permissions."""
    statements = []
    for resource in template.find_resources("AWS::Lambda::Permission").values():
        permission = resolved(resource["Properties"])
        conditions: dict[str, Any] = {"ArnLike": {"AWS:SourceArn": permission["SourceArn"]}}
        if "FunctionUrlAuthType" in permission:
            conditions["StringEquals"] = {
                "lambda:FunctionUrlAuthType": permission["FunctionUrlAuthType"]
            }
        if permission.get("InvokedViaFunctionUrl"):
            conditions["Bool"] = {"lambda:InvokedViaFunctionUrl": "true"}
        statements.append(
            {
                "Effect": "Allow",
                "Principal": {"Service": permission["Principal"]},
                "Action": permission["Action"],
                "Resource": permission["FunctionName"],
                "Condition": conditions,
            }
        )
    assert len(statements) == 2
    policy = {"Version": "2012-10-17", "Statement": statements}
    ours = f"arn:aws:cloudfront::{HOME}:distribution/abc123"

    def asked(
        action: str = "lambda:InvokeFunctionUrl",
        *,
        source: str | None = ours,
        principal: str = "cloudfront.amazonaws.com",
        resource: str = ALIAS,
        by_url: bool = True,
    ) -> Any:
        context = {"lambda:FunctionUrlAuthType": "AWS_IAM"}
        context["lambda:InvokedViaFunctionUrl"] = "true" if by_url else "false"
        if source:
            context["aws:SourceArn"] = source
        return question(
            principal=principal,
            action=action,
            resource=resource,
            context=context,
            resource_policy=policy,
        )

    allowed = [asked(), asked("lambda:InvokeFunction")]
    refused = [
        asked(source=f"{ours}4"),
        asked(source=ours.replace(HOME, "444455556666")),
        asked(source=None),
        asked(resource=ALIAS.removesuffix(":live")),
        asked("lambda:InvokeFunction", by_url=False),
        asked("lambda:UpdateFunctionCode"),
        asked(principal="apigateway.amazonaws.com"),
        # A caller past the distribution: another account's role, and one of this account.
        asked(principal="arn:aws:iam::444455556666:role/search", source=None),
        asked(principal=f"arn:aws:iam::{HOME}:role/search", source=None),
    ]
    answers = may(*allowed, *refused)
    assert answers == [True] * len(allowed) + [False] * len(refused)


def test_the_access_log_has_no_path_query_or_header(template, question, may):
    """It goes to a log group of the stack, which only the delivery of this account may write."""
    delivery = only(template, "AWS::Logs::Delivery")
    assert delivery["RecordFields"] == list(FIELDS)
    assert not any(name.startswith(("cs(", "cs-uri", "cs-headers", "cs-cookie")) for name in FIELDS)
    source = resolved(only(template, "AWS::Logs::DeliverySource"))
    assert source["LogType"] == "ACCESS_LOGS"
    assert source["ResourceArn"] == f"arn:aws:cloudfront::{HOME}:distribution/abc123"
    assert len(source["Name"]) <= 60
    assert only(template, "AWS::Logs::LogGroup")["RetentionInDays"] == 90
    document = resolved(only(template, "AWS::Logs::ResourcePolicy")["PolicyDocument"])
    stream = f"arn:aws:logs:us-east-1:{HOME}:log-group:abc123:log-stream:today"

    def asked(action: str, account: str = HOME, resource: str = stream) -> Any:
        return question(
            principal="delivery.logs.amazonaws.com",
            action=action,
            resource=resource,
            context={
                "aws:SourceAccount": account,
                "aws:SourceArn": f"arn:aws:logs:us-east-1:{account}:delivery-source:test",
            },
            resource_policy=json.loads(document),
        )

    answers = may(
        asked("logs:PutLogEvents"),
        asked("logs:CreateLogStream"),
        asked("logs:PutLogEvents", "444455556666"),
        asked("logs:PutLogEvents", resource=stream.replace("abc123", "other")),
        asked("logs:DeleteLogStream"),
    )
    assert answers == [True, True, False, False, False]


def test_a_name_of_your_own_has_your_certificate_and_tls(make, template):
    """Without one, CloudFront's own name has CloudFront's own certificate."""
    assert "Aliases" not in distribution(template)
    domain = {"name": "embeddings.example.com", "certificate": CERTIFICATE}
    config = distribution(make(domain=domain))
    assert config["Aliases"] == ["embeddings.example.com"]
    assert config["ViewerCertificate"] == {
        "AcmCertificateArn": CERTIFICATE,
        "MinimumProtocolVersion": "TLSv1.2_2025",
        "SslSupportMethod": "sni-only",
    }
    newer = distribution(make(domain=domain | {"minimum_tls": "1.3"}))
    assert newer["ViewerCertificate"]["MinimumProtocolVersion"] == "TLSv1.3_2025"


def test_the_firewall_is_cloudfronts_and_inspects_no_body(make):
    """A megabyte of text and <script> meet no rule that blocks: AWS's rules on bodies count."""
    found = make(firewall={})
    acl = only(found, "AWS::WAFv2::WebACL")
    assert acl["Scope"] == "CLOUDFRONT"
    (acl_id,) = found.find_resources("AWS::WAFv2::WebACL")
    assert distribution(found)["WebACLId"] == {"Fn::GetAtt": [acl_id, "Arn"]}
    groups = {
        rule["Statement"]["ManagedRuleGroupStatement"]["Name"]: {
            override["Name"]
            for override in rule["Statement"]["ManagedRuleGroupStatement"]["RuleActionOverrides"]
            if override["ActionToUse"] == {"Count": {}}
        }
        for rule in acl["Rules"]
        if "ManagedRuleGroupStatement" in rule["Statement"]
    }
    assert groups == OF_BODIES
    assert {name: set(rules) for name, rules in MANAGED_RULES.items()} == OF_BODIES
    # Rules of ours look at addresses alone.
    own = [rule["Statement"] for rule in acl["Rules"] if "Action" in rule]
    assert [list(statement) for statement in own] == [["RateBasedStatement"]]


def test_your_own_web_acl_is_used_as_it_is(make):
    """None is created."""
    yours = f"arn:aws:wafv2:us-east-1:{HOME}:global/webacl/company/1234abcd-12ab"
    named = make(firewall={"web_acl": yours})
    named.resource_count_is("AWS::WAFv2::WebACL", 0)
    assert distribution(named)["WebACLId"] == yours


def test_lists_of_networks_and_countries_block_all_others(make):
    """Each list is a rule; a set of addresses has one version of IP."""
    found = make(
        firewall={
            "managed_rules": False,
            "addresses": ["203.0.113.0/24", "2001:db8::/32"],
            "blocked_addresses": ["203.0.113.7/32"],
            "countries": ["DE"],
            "blocked_countries": ["AT", "CH"],
        }
    )
    rules = {rule["Name"]: rule for rule in only(found, "AWS::WAFv2::WebACL")["Rules"]}
    assert len({rule["Priority"] for rule in rules.values()}) == len(rules) == 5
    assert all(rule["Action"] == {"Block": {}} for rule in rules.values())
    sets = {
        logical: resource["Properties"]
        for logical, resource in found.find_resources("AWS::WAFv2::IPSet").items()
    }
    assert {one["Scope"] for one in sets.values()} == {"CLOUDFRONT"}

    def addresses(statement: dict[str, Any]) -> list[str]:
        (logical, _) = statement["IPSetReferenceStatement"]["Arn"]["Fn::GetAtt"]
        return list(sets[logical]["Addresses"])

    others = rules["OtherAddresses"]["Statement"]["NotStatement"]["Statement"]
    assert [addresses(one) for one in others["OrStatement"]["Statements"]] == [
        ["203.0.113.0/24"],
        ["2001:db8::/32"],
    ]
    assert addresses(rules["BlockedAddresses"]["Statement"]) == ["203.0.113.7/32"]
    assert rules["OtherCountries"]["Statement"] == {
        "NotStatement": {"Statement": {"GeoMatchStatement": {"CountryCodes": ["DE"]}}}
    }
    assert rules["BlockedCountries"]["Statement"] == {
        "GeoMatchStatement": {"CountryCodes": ["AT", "CH"]}
    }


def test_every_alarm_notifies_and_has_a_section_in_the_runbook(template):
    """A link in the mail leads to it."""
    alarms = [a["Properties"] for a in template.find_resources("AWS::CloudWatch::Alarm").values()]
    page = (ROOT / "docs" / "runbook.md").read_text().splitlines()
    sections = {line.lstrip("# ").lower() for line in page if line.startswith("#")}
    links = {
        alarm["AlarmDescription"].rpartition("Runbook: docs/runbook.md#")[2] for alarm in alarms
    }
    assert links == {"edge5xx", "edge4xx"}
    assert links <= sections
    assert all(alarm["AlarmActions"] for alarm in alarms)
    for alarm in alarms:
        dimensions = {one["Name"]: resolved(one["Value"]) for one in alarm["Dimensions"]}
        assert dimensions == {"DistributionId": "abc123", "Region": "Global"}


def test_the_dashboards_row_reads_metrics_of_us_east_1(template):
    """CloudFront publishes them nowhere else."""
    body = json.loads(resolved(only(template, "AWS::CloudWatch::Dashboard")["DashboardBody"]))
    graphs = [widget["properties"] for widget in body["widgets"]]
    assert [graph["title"] for graph in graphs] == [
        "CloudFront: requests",
        "CloudFront: errors, percent",
        "CloudFront: bytes",
    ]
    for graph in graphs:
        assert all(metric[0] == "AWS/CloudFront" for metric in graph["metrics"])
