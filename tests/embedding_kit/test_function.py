"""Test the properties that the function takes from the app: role, log group, retention."""

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from pydantic import ValidationError

from embedding_kit import FunctionSettings
from tests.embedding_kit.endpoints import make_endpoint
from tests.embedding_kit.roles import statements


@pytest.mark.parametrize("updates", [True, False], ids=["mutable", "without policy updates"])
def test_another_execution_role_is_granted_its_permissions(synthesize, model, updates):
    """It is the function's role; a role without policy updates stays as it is."""

    def build(stack):
        role = iam.Role(stack, "Mine", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        make_endpoint(stack, model=model, role=role if updates else role.without_policy_updates())

    template = synthesize(build)
    (embedder,) = (
        function["Properties"]
        for name, function in template.find_resources("AWS::Lambda::Function").items()
        if name.startswith("EndpointEmbedder")
    )
    assert embedder["Role"]["Fn::GetAtt"][0].startswith("Mine")
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
