"""Test how the traffic shifts to a new version."""

from datetime import timedelta

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Annotations, Match, Template

from embedding_kit import (
    EmbeddingEndpoint,
    Experiment,
    FunctionSettings,
    Provisioned,
    Release,
    SnapStart,
)

CANARY = Release(kind="canary")
ALARM_RULE = Match.string_like_regexp("^EndpointRelease(Crashes|Failures|Slow)")


CHECK = Match.string_like_regexp("^EndpointCheck[0-9A-F]{8}$")
VERSION = {"Fn::GetAtt": [Match.string_like_regexp("FunctionCurrentVersion"), "Version"]}
OTHER_WEIGHT = Experiment(version=12, percent=10.0)
OTHER_ALIAS = Experiment(version=12)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"release": CANARY},
        {"experiment": OTHER_WEIGHT},
        {"experiment": OTHER_ALIAS},
    ],
    ids=["plain", "canary", "weights", "alias"],
)
def test_the_alias_moves_after_the_check(endpoint_template, properties):
    """CloudFormation runs the check before any change of the alias."""
    template = endpoint_template(**properties)
    template.has_resource(
        "AWS::Lambda::Alias",
        {
            "Properties": {"Name": "live", "FunctionVersion": VERSION},
            "DependsOn": Match.array_with([CHECK]),
        },
    )
    template.has_resource_properties("Custom::ReleaseCheck", {"Version": VERSION, "Alias": "live"})


def test_fixed_weights_exclude_codedeploy(endpoint_template, synthesize, model):
    """CloudFormation sets fixed weights, so the construct has no deployment group."""
    endpoint_template(experiment=OTHER_WEIGHT).resource_count_is(
        "AWS::CodeDeploy::DeploymentGroup", 0
    )
    groups = {}

    def build(stack):
        for name, experiment in {"Plain": None, "Weights": OTHER_WEIGHT}.items():
            endpoint = EmbeddingEndpoint(stack, name, model=model, experiment=experiment)
            groups[name] = endpoint.deployment_group

    synthesize(build)
    assert groups["Weights"] is None
    assert groups["Plain"].deployment_group_name


@pytest.mark.parametrize(
    ("experiment", "other"), [(None, ""), (OTHER_WEIGHT, "12"), (OTHER_ALIAS, "")]
)
def test_only_weights_bind_two_versions_to_one_space(endpoint_template, experiment, other):
    """A second alias has a separate URL and may serve another vector space."""
    endpoint_template(experiment=experiment).has_resource_properties(
        "Custom::ReleaseCheck", {"OtherVersion": other}
    )


@pytest.mark.parametrize(
    ("settings", "shifts"),
    [
        ({}, "false"),
        ({"release": CANARY}, "true"),
        ({"cold_start": Provisioned()}, "true"),
    ],
    ids=["all at once", "canary", "provisioned"],
)
def test_the_check_knows_whether_two_versions_share_the_alias(endpoint_template, settings, shifts):
    """Two versions on one alias must share an execution role, which the check may read."""
    template = endpoint_template(**settings)
    template.has_resource_properties("Custom::ReleaseCheck", {"ShiftsTraffic": shifts})
    template.has_resource_properties(
        "AWS::IAM::Policy",
        {
            "PolicyDocument": {
                "Statement": Match.array_with(
                    [
                        Match.object_like(
                            {"Action": ["lambda:GetFunctionConfiguration", "lambda:InvokeFunction"]}
                        )
                    ]
                )
            }
        },
    )


def test_a_version_is_kept_unless_its_deploy_is_rolled_back(endpoint_template):
    """Old versions are kept for rollbacks; one whose own deploy is rolled back is deleted."""
    endpoint_template().has_resource(
        "AWS::Lambda::Version",
        {"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"},
    )
    endpoint_template(cold_start=SnapStart()).has_resource(
        "AWS::Lambda::Version", {"DeletionPolicy": "Delete"}
    )


@pytest.mark.parametrize("minutes", [1, 7, 60 * 24])
@pytest.mark.parametrize(
    ("kind", "routing", "key"),
    [
        ("canary", "TimeBasedCanary", "CanaryInterval"),
        ("linear", "TimeBasedLinear", "LinearInterval"),
    ],
)
def test_an_interval_is_written_in_minutes(endpoint_template, kind, routing, key, minutes):
    """CodeDeploy counts the interval between two steps in minutes."""
    release = Release(kind=kind, percent=50, interval=timedelta(minutes=minutes))
    endpoint_template(release=release).has_resource_properties(
        "AWS::CodeDeploy::DeploymentConfig", {"TrafficRoutingConfig": {routing: {key: minutes}}}
    )


def test_only_a_release_in_steps_has_alarms(endpoint_template):
    """A shift all at once is over before an alarm has data. A failed one is rolled back."""
    template = endpoint_template(release=Release())
    template.resource_count_is("AWS::CloudWatch::Alarm", 0)
    template.has_resource_properties(
        "AWS::CodeDeploy::DeploymentGroup",
        {
            "AutoRollbackConfiguration": {
                "Enabled": True,
                "Events": ["DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_REQUEST"],
            },
            "AlarmConfiguration": {"Enabled": False},
        },
    )


def test_every_alarm_of_a_release_is_of_the_new_version_and_new(endpoint_template):
    """An updated alarm keeps its state, so each version has alarms with new names."""
    template = endpoint_template(release=CANARY)
    alarms = [
        alarm["Properties"]
        for name, alarm in template.find_resources("AWS::CloudWatch::Alarm").items()
        if name.startswith("EndpointRelease")
    ]
    assert len(alarms) == 3
    (version,) = template.find_resources("AWS::Lambda::Version")
    number = {"Fn::GetAtt": [version, "Version"]}
    for alarm in alarms:
        assert alarm["AlarmName"]["Fn::Join"][1][-1] == number
        metrics = [
            query["MetricStat"]["Metric"]
            for query in alarm.get("Metrics", [])
            if "MetricStat" in query
        ]
        for metric in metrics or [alarm]:
            assert number in [dimension["Value"] for dimension in metric["Dimensions"]]


@pytest.mark.parametrize("broken", [False, True])
def test_break_glass_ignores_the_alarms(model, broken):
    """The alarms remain, but CodeDeploy ignores them; the check knows, and synth says so."""
    stack = Stack(App(context={"break-glass": "true"} if broken else None), "Stack")
    EmbeddingEndpoint(stack, "Endpoint", model=model, release=CANARY)
    template = Template.from_stack(stack)
    template.has_resource_properties(
        "AWS::CodeDeploy::DeploymentGroup",
        {
            "AlarmConfiguration": {
                "Enabled": not broken,
                "Alarms": [{"Name": {"Ref": ALARM_RULE}}] * 3,
            }
        },
    )
    template.has_resource_properties("Custom::ReleaseCheck", {"BreakGlass": str(broken).lower()})
    said = Annotations.from_stack(stack).find_warning(
        "*", Match.string_like_regexp("^BREAK GLASS: .*Deploy without -c break-glass=true")
    )
    assert len(said) == broken


def test_slow_is_what_the_alarms_call_slow(endpoint_template):
    """A release uses the same latency threshold as the endpoint, derived from its timeout."""
    template = endpoint_template(release=CANARY, function=FunctionSettings(memory_mb=1024))
    template.has_resource_properties(
        "AWS::CloudWatch::Alarm",
        {"MetricName": "Duration", "ExtendedStatistic": "p99", "Threshold": 15000},
    )


@pytest.mark.parametrize(
    ("reserved", "cold_start", "starts"),
    [
        (None, Provisioned(maximum=20), "3"),
        (20, None, "3"),
        (2, None, "2"),
        (6, Provisioned(maximum=5), "1"),
    ],
)
def test_the_check_starts_no_more_environments_than_there_is_room_for(
    endpoint_template, reserved, cold_start, starts
):
    """Lambda counts them as part of the function's reserved concurrency."""
    template = endpoint_template(
        function=FunctionSettings(reserved_concurrency=reserved), cold_start=cold_start
    )
    template.has_resource_properties("Custom::ReleaseCheck", {"WarmStarts": starts})


@pytest.mark.parametrize("allowed", [False, True])
def test_a_change_of_the_vectors_is_the_settings_choice(endpoint_template, allowed):
    """A changed vector space is refused by default; CloudFormation passes the setting as text."""
    release = Release(kind="canary", allow_vector_space_change=True) if allowed else CANARY
    endpoint_template(release=release).has_resource_properties(
        "Custom::ReleaseCheck", {"AllowVectorSpaceChange": str(allowed).lower()}
    )


def test_codedeploy_may_move_this_alias_only(endpoint_template):
    """AWS's managed policy would allow changes of every alias in the account."""
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
