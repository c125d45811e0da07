"""How a new version takes over."""

import pytest
from aws_cdk.assertions import Match

from embedding_kit import AllAtOnce, Canary, FunctionSettings, Linear

ALARM_RULE = Match.string_like_regexp("^EndpointRelease(Crashes|Failures|Slow)")


@pytest.mark.parametrize(
    ("release", "routing"),
    [
        (
            Canary(percent=10),
            {
                "Type": "TimeBasedCanary",
                "TimeBasedCanary": {"CanaryPercentage": 10, "CanaryInterval": 5},
            },
        ),
        (
            Linear(percent=25),
            {
                "Type": "TimeBasedLinear",
                "TimeBasedLinear": {"LinearPercentage": 25, "LinearInterval": 5},
            },
        ),
    ],
    ids=["canary", "linear"],
)
def test_traffic_moves_in_steps(endpoint_template, release, routing):
    """The steps are those that were set."""
    template = endpoint_template(release=release)
    template.has_resource_properties(
        "AWS::CodeDeploy::DeploymentConfig",
        {"ComputePlatform": "Lambda", "TrafficRoutingConfig": routing},
    )


def test_traffic_moves_at_once(endpoint_template):
    """All at once is CodeDeploy's own configuration, still behind the check."""
    template = endpoint_template(release=AllAtOnce())
    template.resource_count_is("AWS::CodeDeploy::DeploymentConfig", 0)
    template.has_resource_properties(
        "AWS::CodeDeploy::DeploymentGroup",
        {"DeploymentConfigName": "CodeDeployDefault.LambdaAllAtOnce"},
    )


def test_the_alias_moves_by_codedeploy_after_the_check(endpoint_template):
    """No version gets traffic before it was warmed and checked."""
    endpoint_template().has_resource(
        "AWS::Lambda::Alias",
        {
            "UpdatePolicy": {
                "CodeDeployLambdaAliasUpdate": {
                    "ApplicationName": Match.any_value(),
                    "DeploymentGroupName": Match.any_value(),
                    "BeforeAllowTrafficHook": {
                        "Ref": Match.string_like_regexp("^EndpointReleaseCheckFunction")
                    },
                }
            },
            "DependsOn": Match.array_with([Match.string_like_regexp("RoleDefaultPolicy")]),
        },
    )


def test_a_release_is_taken_back_on_each_of_its_alarms(endpoint_template):
    """A release that fails, is stopped, or rings an alarm leaves the old version serving."""
    endpoint_template().has_resource_properties(
        "AWS::CodeDeploy::DeploymentGroup",
        {
            "AutoRollbackConfiguration": {
                "Enabled": True,
                "Events": [
                    "DEPLOYMENT_FAILURE",
                    "DEPLOYMENT_STOP_ON_REQUEST",
                    "DEPLOYMENT_STOP_ON_ALARM",
                ],
            },
            "AlarmConfiguration": {
                "Enabled": True,
                "Alarms": [{"Name": {"Ref": ALARM_RULE}}] * 3,
            },
        },
    )


def test_a_new_version_is_judged_by_its_own_crashes(endpoint_template):
    """At ten percent of the traffic the alias's own average would hide them."""
    endpoint_template().has_resource_properties(
        "AWS::CloudWatch::Alarm",
        {
            "MetricName": "Errors",
            "Threshold": 0,
            "ComparisonOperator": "GreaterThanThreshold",
            "TreatMissingData": "notBreaching",
            "Dimensions": Match.array_with(
                [{"Name": "ExecutedVersion", "Value": Match.any_value()}]
            ),
        },
    )


def test_slow_is_what_the_alarms_call_slow(endpoint_template):
    """A release is measured by the same threshold as the endpoint, derived from its timeout."""
    template = endpoint_template(function=FunctionSettings(memory_mb=1024))
    template.has_resource_properties(
        "AWS::CloudWatch::Alarm",
        {"MetricName": "Duration", "ExtendedStatistic": "p99", "Threshold": 15000},
    )


def test_the_check_runs_from_the_image_it_checks(endpoint_template):
    """It holds the manifest of what should be served, and reaches the two versions only."""
    template = endpoint_template(release=Canary(allow_vector_space_change=True))
    template.has_resource_properties(
        "AWS::Lambda::Function",
        {
            "ImageConfig": {"Command": ["embedder.release_check.handler"]},
            "Environment": {
                "Variables": {
                    "RELEASE_FUNCTION": Match.any_value(),
                    "RELEASE_VERSION": Match.any_value(),
                    "RELEASE_ALIAS": "live",
                    "RELEASE_ALLOW_VECTOR_SPACE_CHANGE": "true",
                }
            },
        },
    )
    images = {
        str(function["Properties"]["Code"]["ImageUri"])
        for function in template.find_resources("AWS::Lambda::Function").values()
    }
    assert len(images) == 1


def test_a_change_of_the_vectors_is_refused_by_default(endpoint_template):
    """Mixing two spaces is an accident until somebody says that it is none."""
    endpoint_template().has_resource_properties(
        "AWS::Lambda::Function",
        {"Environment": {"Variables": {"RELEASE_ALLOW_VECTOR_SPACE_CHANGE": "false"}}},
    )


def test_codedeploy_may_move_this_alias_only(endpoint_template):
    """AWS's managed policy would let it move every alias of the account."""
    template = endpoint_template()
    (role,) = (
        role
        for name, role in template.find_resources("AWS::IAM::Role").items()
        if name.startswith("EndpointReleaseRole")
    )
    assert "ManagedPolicyArns" not in role["Properties"]
    template.has_resource_properties(
        "AWS::IAM::Policy",
        {
            "PolicyDocument": {
                "Statement": Match.array_with(
                    [
                        Match.object_like(
                            {
                                "Action": [
                                    "lambda:GetAlias",
                                    "lambda:GetProvisionedConcurrencyConfig",
                                    "lambda:UpdateAlias",
                                ],
                                "Resource": [
                                    {"Fn::GetAtt": Match.any_value()},
                                    {"Fn::Join": ["", [Match.any_value(), ":live"]]},
                                ],
                            }
                        )
                    ]
                )
            }
        },
    )
