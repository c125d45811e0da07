"""Test how the traffic shifts to a new version."""

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Annotations, Match, Template

from embedding_kit import (
    EmbeddingEndpoint,
    Experiment,
    FunctionSettings,
    Provisioned,
    Release,
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
