"""Test the private network: settings, functions and services in a VPC, callers by Invoke."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, DefaultStackSynthesizer, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Match, Template

from embedding_kit import (
    BatchSettings,
    EmbeddingBatch,
    EmbeddingEndpoint,
    EmbeddingService,
    FunctionSettings,
    Hosting,
    IndexLoading,
    NetworkSettings,
    ServerSettings,
    SnapStart,
    VectorIndex,
)
from stacks.environment_file import load_environment
from tests.embedding_kit.roles import HOME, Case, allowed, allowed_by, of_kind, only, statements

PAGE = Path(__file__).resolve().parents[2] / "docs" / "front.md"
VPC = "vpc-0123456789abcdef0"
SUBNET, SECOND_SUBNET = "subnet-0aaaaaaaaaaaaaaa1", "subnet-0aaaaaaaaaaaaaaa2"
GROUP, DATABASE = "sg-0123456789abcdef0", "sg-0123456789abcdef1"
FUNCTION = f"arn:aws:lambda:us-east-1:{HOME}:function:one"
INTERFACE = f"arn:aws:ec2:us-east-1:{HOME}:network-interface/eni-1"
#: What a new security group has for nothing: the CDK needs a rule, and AWS would add one for all.
NOTHING = {"IpProtocol": "icmp", "CidrIp": "255.255.255.255/32"}
AWS = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0"}


def settings(**changes: Any) -> NetworkSettings:
    return NetworkSettings(**{"vpc": VPC, "subnets": (SUBNET, SECOND_SUBNET), **changes})


@pytest.fixture(scope="module")
def make(synthesize, model):
    """Return a function that synthesizes a part in the network."""

    def template(
        part: str = "endpoint", *, network: NetworkSettings | None = None, index: bool = False
    ):
        def build(stack: Stack) -> None:
            hosting = Hosting.in_network(stack, network or settings())
            if part == "endpoint":
                endpoint = EmbeddingEndpoint(stack, "Endpoint", model=model, hosting=hosting)
                if index:
                    endpoint.add_vector_index(VectorIndex(stack, "Index", model=model))
            if part == "batch":
                folders = BatchSettings(input="s3://texts/", output="s3://vectors/")
                EmbeddingBatch(stack, "Batch", model=model, settings=folders, hosting=hosting)
            if part == "loading":
                IndexLoading(
                    stack,
                    "Loading",
                    model=model,
                    index=VectorIndex(stack, "Index", model=model),
                    source="s3://vectors/",
                    hosting=hosting,
                )

        return synthesize(build)

    return template


def attached(template: Template) -> dict[str, Any]:
    """Return the network of the one function that has one."""
    functions = of_kind(template, "AWS::Lambda::Function")
    (network,) = (function["VpcConfig"] for function in functions if "VpcConfig" in function)
    return dict(network)


def egress(template: Template) -> dict[str, Any]:
    """Return the one rule of the one new security group."""
    group = only(template, "AWS::EC2::SecurityGroup")
    assert group["VpcId"] == VPC
    assert "SecurityGroupIngress" not in group
    (rule,) = group["SecurityGroupEgress"]
    return dict(rule)


@pytest.mark.parametrize(
    ("part", "more", "allowed"),
    [
        ("endpoint", {}, NOTHING),
        ("endpoint", {"index": True}, AWS),
        ("batch", {}, AWS),
        ("loading", {}, AWS),
    ],
    ids=["endpoint", "with an index", "batch", "loading"],
)
def test_a_function_gets_out_only_as_far_as_it_must(make, part, more, allowed):
    """The one function that handles texts is in the subnets, with another security group."""
    template = make(part, **more)
    network = attached(template)
    assert network["SubnetIds"] == [SUBNET, SECOND_SUBNET]
    assert len(network["SecurityGroupIds"]) == 1
    assert egress(template).items() >= allowed.items()


def test_a_function_with_its_artifact_in_s3_gets_out(model):
    """It downloads the artifact when it is initialized."""
    synthesizer = DefaultStackSynthesizer(file_assets_bucket_name="kit-${AWS::AccountId}")
    stack = Stack(App(), "Stack", synthesizer=synthesizer)
    hosting = Hosting.in_network(stack, settings())
    function = FunctionSettings(package="zip", artifact="s3", memory_mb=1769)
    EmbeddingEndpoint(
        stack, "Endpoint", model=model, function=function, cold_start=SnapStart(), hosting=hosting
    )
    assert egress(Template.from_stack(stack)).items() >= AWS.items()


def test_groups_of_your_own_are_used_as_they_are(make):
    """No group is made, and no rule is added to yours."""
    template = make(network=settings(security_groups=(GROUP,), subnets=(SUBNET,)))
    assert attached(template) == {"SecurityGroupIds": [GROUP], "SubnetIds": [SUBNET]}
    assert "AWS::EC2" not in str(template.to_json())


@pytest.mark.parametrize(
    ("part", "role"),
    [("endpoint", "EndpointEmbedderRole"), ("batch", "BatchRole"), ("loading", "LoadingRole")],
)
def test_lambda_may_manage_interfaces_and_the_code_may_not(make, part, role):
    """Lambda's own calls lack the function's ARN, and those of its code have it."""
    code = {"lambda:SourceFunctionArn": FUNCTION}
    cases: list[Case] = [
        (role, "ec2:CreateNetworkInterface", INTERFACE),
        (role, "ec2:CreateNetworkInterface", INTERFACE, code),
        (role, "ec2:DescribeSubnets", "*", code),
        (role, "ec2:RunInstances", f"arn:aws:ec2:us-east-1:{HOME}:instance/*"),
    ]
    assert allowed(make(part), cases) == cases[:1]


def test_the_tasks_of_a_server_take_groups_of_your_own(synthesize, model):
    """Only the rule by which the load balancer reaches the tasks is added to them."""
    server = ServerSettings(
        vpc=VPC,
        subnets=(SUBNET, SECOND_SUBNET),
        clients=("10.0.0.0/16",),
        no_keys=True,
        security_groups=(GROUP,),
    )
    template = synthesize(lambda s: EmbeddingService(s, "Server", model=model, settings=server))
    network = Match.object_like(
        {"AwsvpcConfiguration": Match.object_like({"SecurityGroups": [GROUP]})}
    )
    template.has_resource_properties("AWS::ECS::Service", {"NetworkConfiguration": network})
    template.resource_count_is("AWS::EC2::SecurityGroup", 1)
    rule = only(template, "AWS::EC2::SecurityGroupIngress")
    assert rule["GroupId"] == GROUP
    assert "SourceSecurityGroupId" in rule


MODEL = '[model]\nname = "sentence-transformers/all-MiniLM-L6-v2"\n'
NETWORK = (
    f'[network]\nvpc = "{VPC}"\nsubnets = ["{SUBNET}", "{SECOND_SUBNET}"]\n'
    f'security_groups = ["{GROUP}"]\n'
)
SERVER = '[server]\nclients = ["10.0.0.0/16"]\nno_keys = true\n'


SECOND_VPC, THIRD_SUBNET = "vpc-0aaaaaaaaaaaaaaa9", "subnet-0aaaaaaaaaaaaaaa3"


@pytest.mark.parametrize(
    ("own", "place"),
    [
        ("", (VPC, (SUBNET, SECOND_SUBNET), (GROUP,))),
        (f'subnets = ["{SUBNET}", "{THIRD_SUBNET}"]\n', (VPC, (SUBNET, THIRD_SUBNET), (GROUP,))),
        # Subnets and groups of another VPC would not fit.
        (
            f'vpc = "{SECOND_VPC}"\nsubnets = ["{SUBNET}", "{SECOND_SUBNET}"]\n',
            (SECOND_VPC, (SUBNET, SECOND_SUBNET), ()),
        ),
    ],
)
def test_the_server_is_in_the_network_by_default(tmp_path, own, place):
    """It takes the VPC, the subnets and the groups that its own table lacks."""
    (tmp_path / "test.toml").write_text(MODEL + NETWORK + SERVER + own)
    server = load_environment("test", folder=tmp_path).server
    assert (server.vpc, server.subnets, server.security_groups) == place


def test_the_documented_policy_of_the_endpoint_leads_nowhere_else():
    """It is judged as the only policy, as AWS judges it besides those of role and function."""
    (pasted,) = re.findall(r'```json\n({\s+"Version".*?)```', PAGE.read_text("utf-8"), re.DOTALL)
    account = "111122223333"
    cases = [
        (
            f"arn:aws:iam::{account}:role/{caller}",
            f"lambda:{action}",
            f"arn:aws:lambda:eu-central-1:{account}:function:{function}",
        )
        for caller, action, function in (
            ("search", "InvokeFunction", "NAME:live"),
            ("search", "InvokeFunction", "NAME"),
            ("search", "InvokeFunction", "OTHER:live"),
            ("search", "UpdateFunctionCode", "NAME"),
            ("other", "InvokeFunction", "NAME:live"),
        )
    ]
    policy = json.loads(pasted)
    assert allowed_by(cases, account=account, resource_policy=policy) == cases[:1]


def test_grants_and_connections_take_the_endpoint(model, synthesize):
    """As with the CDK's own functions, another construct's grants and rules name the endpoint."""

    def build(stack: Stack) -> None:
        hosting = Hosting.in_network(stack, settings(security_groups=(GROUP,)))
        endpoint = EmbeddingEndpoint(stack, "Endpoint", model=model, hosting=hosting)
        kms.Key(stack, "Key").grant_decrypt(endpoint)
        database = ec2.SecurityGroup.from_security_group_id(stack, "Database", DATABASE)
        database.connections.allow_from(endpoint, ec2.Port.tcp(5432))

    template = synthesize(build)
    template.has_resource_properties(
        "AWS::EC2::SecurityGroupIngress",
        {"GroupId": DATABASE, "FromPort": 5432, "SourceSecurityGroupId": GROUP},
    )
    (key,) = template.find_resources("AWS::KMS::Key")
    on_key = {"Fn::GetAtt": [key, "Arn"]}
    key_actions = [
        statement["Action"] for statement in statements(template) if statement["Resource"] == on_key
    ]
    assert key_actions == ["kms:Decrypt"]


def test_connections_of_an_endpoint_without_a_vpc_say_what_is_missing(model, synthesize):
    """The error names the property that puts the endpoint into a VPC."""

    def build(stack: Stack) -> None:
        endpoint = EmbeddingEndpoint(stack, "Endpoint", model=model)
        with pytest.raises(ValueError, match=r"found: an endpoint without a VPC; .*Hosting\(vpc="):
            _ = endpoint.connections

    synthesize(build)


def test_further_properties_reach_the_functions_that_run_the_model(model, synthesize):
    """They replace the kit's description; the check of a release has none of them."""
    further = {"description": "Ours", "recursive_loop": lambda_.RecursiveLoop.ALLOW}
    hosting = Hosting(function_props=further)

    def build(stack: Stack) -> None:
        EmbeddingEndpoint(stack, "Endpoint", model=model, hosting=hosting)
        folders = BatchSettings(input="s3://texts/", output="s3://vectors/")
        EmbeddingBatch(stack, "Batch", model=model, settings=folders, hosting=hosting)

    synthesize(build).resource_properties_count_is(
        "AWS::Lambda::Function", {"Description": "Ours", "RecursiveLoop": "Allow"}, 2
    )


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("memory_size", "its place: the settings of the function"),
        ("environment", "its place: function.add_environment"),
        ("system_log_level_v2", "its place: none, as releases and metrics depend on it"),
        ("memory", r"adot_instrumentation, .*dead_letter_queue, .*tenancy_config"),
    ],
)
def test_a_property_with_another_place_is_refused_by_name(name, allowed):
    """Two places for one property would disagree, and a misspelled one would do nothing."""
    with pytest.raises(ValueError, match=f"found: {name}; allowed: {allowed}"):
        Hosting(function_props={name: None})
