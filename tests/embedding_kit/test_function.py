"""Test the properties that the function takes from the app: VPC, role, key, log group, tracing."""

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk.assertions import Template
from pydantic import ValidationError

from embedding_kit import FunctionSettings
from tests.embedding_kit.endpoints import make_endpoint
from tests.embedding_kit.roles import statements

LAMBDA = iam.ServicePrincipal("lambda.amazonaws.com")


@pytest.fixture(scope="module")
def build(synthesize, model):
    """Return the template of an endpoint with the properties that a function of the stack gives."""

    def make(properties) -> Template:
        return synthesize(lambda stack: make_endpoint(stack, model=model, **properties(stack)))

    return make


def _functions(template: Template) -> dict[str, dict]:
    """Return each function's properties: the embedder, the check and the CDK's framework."""
    names = {"EndpointEmbedder": "embedder", "EndpointCheckFunction": "check"}
    return {
        next((short for start, short in names.items() if name.startswith(start)), "framework"): (
            function["Properties"]
        )
        for name, function in template.find_resources("AWS::Lambda::Function").items()
    }


def test_the_embedder_is_in_the_vpc(build):
    """Its role may manage network interfaces; the check stays outside, for it calls AWS's APIs."""

    def properties(stack):
        vpc = ec2.Vpc(
            stack,
            "Vpc",
            max_azs=2,
            subnet_configuration=[
                ec2.SubnetConfiguration(name=name, subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
                for name in ("one", "two")
            ],
        )
        group = ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-12345678")
        subnets = ec2.SubnetSelection(subnet_group_name="two")
        return {"vpc": vpc, "vpc_subnets": subnets, "security_groups": [group]}

    template = build(properties)
    functions = _functions(template)
    network = functions["embedder"]["VpcConfig"]
    assert network["SecurityGroupIds"] == ["sg-12345678"]
    assert [subnet["Ref"][:12] for subnet in network["SubnetIds"]] == ["VpctwoSubnet"] * 2
    assert not any("VpcConfig" in functions[other] for other in ("check", "framework"))
    for role, count in (("EndpointEmbedderRole", 1), ("EndpointCheckRole", 0)):
        granted = [each for each in statements(template, role) if each["Effect"] == "Allow"]
        assert sum("ec2:CreateNetworkInterface" in each["Action"] for each in granted) == count


@pytest.mark.parametrize("updates", [True, False], ids=["mutable", "without policy updates"])
def test_another_execution_role_is_granted_its_permissions(build, updates):
    """It is the function's role; a role without policy updates stays as it is."""

    def properties(stack):
        role = iam.Role(stack, "Mine", assumed_by=LAMBDA)
        return {"role": role if updates else role.without_policy_updates()}

    template = build(properties)
    role = _functions(template)["embedder"]["Role"]["Fn::GetAtt"][0]
    assert role.startswith("Mine")
    assert not [name for name in template.to_json()["Resources"] if "EmbedderRole" in name]
    written = [s for s in statements(template, "Mine") if "logs:PutLogEvents" in s["Action"]]
    assert len(written) == updates


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"log_group": True, "function": FunctionSettings(log_retention_days=14)},
            (
                "a log group of your own has its own retention; "
                "found: log_group with function.log_retention_days; allowed: one of them"
            ),
        ),
        (
            {"vpc_subnets": ec2.SubnetSelection(), "security_groups": []},
            (
                "subnets and security groups belong to a VPC; found: vpc_subnets and "
                "security_groups without vpc; allowed: vpc with them, or none of the three"
            ),
        ),
    ],
    ids=["retention", "no VPC"],
)
def test_properties_that_exclude_each_other_are_refused(model, properties, message):
    """A setting without effect is an error, also if it has its default."""
    stack = Stack(App())
    if "log_group" in properties:
        group = logs.LogGroup.from_log_group_name(stack, "Logs", "/mine")
        properties = {**properties, "log_group": group}
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the whole message is compared
        make_endpoint(stack, model=model, **properties)
    assert str(refused.value) == message


def test_logs_are_kept_for_the_spans_that_cloudwatch_takes():
    """Exactly the values of PutRetentionPolicy are accepted."""
    # https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
    spans = {1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827}
    spans |= {2192, 2557, 2922, 3288, 3653}
    near = {day + by for day in spans for by in (-1, 0, 1)}
    accepted = set()
    for days in near:
        try:
            FunctionSettings(log_retention_days=days)
            accepted.add(days)
        except ValidationError as error:
            assert "CloudWatch Logs keeps logs for certain spans only" in str(error)  # noqa: PT017
    assert accepted == spans
