"""Test the autoscaling of provisioned concurrency."""

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Annotations, Match, Template

from embedding_kit import EmbeddingEndpoint, Provisioned, Release, ScheduledCapacity


@pytest.fixture
def template(endpoint_template) -> Template:
    workday = ScheduledCapacity(
        name="workday",
        at="cron(0 8 ? * MON-FRI *)",
        time_zone="Europe/Berlin",
        minimum=5,
        maximum=20,
    )
    evening = ScheduledCapacity(name="evening", at="cron(0 19 ? * MON-FRI *)", minimum=1)
    return endpoint_template(
        cold_start=Provisioned(
            target_utilization=0.6, minimum=2, maximum=10, schedule=(workday, evening)
        )
    )


def test_no_static_count_stands_beside_autoscaling(template):
    """A static count and autoscaling would overwrite each other at every deploy."""
    template.has_resource_properties(
        "AWS::Lambda::Alias",
        {"Name": "live", "ProvisionedConcurrencyConfig": Match.absent()},
    )


def test_nothing_is_kept_ready_by_default(endpoint_template):
    """Provisioned concurrency is off by default, because it is billed."""
    template = endpoint_template()
    template.resource_count_is("AWS::ApplicationAutoScaling::ScalableTarget", 0)


@pytest.mark.parametrize(("duration", "warnings"), [("20ms", 1), ("100ms", 0)])
def test_a_target_out_of_reach_is_a_warning_of_synth(model, duration, warnings):
    """A target out of reach deploys but never scales out, so synth prints a warning."""
    stack = Stack(App(), "Stack")
    EmbeddingEndpoint(stack, "E", model=model, cold_start=Provisioned(request_duration=duration))
    found = Annotations.from_stack(stack).find_warning(
        "*", Match.string_like_regexp("target_utilization = 0.7 is never passed.*= 0.14")
    )
    assert len(found) == warnings


@pytest.mark.parametrize("release", [Release(kind="canary"), Release(kind="linear")])
def test_a_gradual_release_goes_with_provisioned_concurrency(endpoint_template, release):
    """AWS supports both on one alias as long as CodeDeploy sets the weights."""
    template = endpoint_template(cold_start=Provisioned(request_duration="100ms"), release=release)
    template.resource_count_is("AWS::ApplicationAutoScaling::ScalableTarget", 1)
    template.resource_count_is("AWS::CodeDeploy::DeploymentConfig", 1)
    template.has_resource(
        "AWS::Lambda::Alias",
        {
            "Properties": {"Name": "live", "RoutingConfig": Match.absent()},
            "UpdatePolicy": {"CodeDeployLambdaAliasUpdate": Match.any_value()},
        },
    )
