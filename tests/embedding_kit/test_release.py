"""Test how the traffic shifts to a new version."""

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Annotations, Match, Template

from embedding_kit import EmbeddingEndpoint, FunctionSettings, Provisioned, Release

CANARY = Release(kind="canary")
ALARM_RULE = Match.string_like_regexp("^EndpointRelease(Crashes|Failures|Slow)")


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
