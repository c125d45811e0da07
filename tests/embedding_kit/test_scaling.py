"""Test the autoscaling of provisioned concurrency."""

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Annotations, Match

from embedding_kit import EmbeddingEndpoint, Provisioned


@pytest.mark.parametrize(("duration", "warnings"), [("20ms", 1), ("100ms", 0)])
def test_a_target_out_of_reach_is_a_warning_of_synth(model, duration, warnings):
    """A target out of reach deploys but never scales out, so synth prints a warning."""
    stack = Stack(App(), "Stack")
    EmbeddingEndpoint(stack, "E", model=model, cold_start=Provisioned(request_duration=duration))
    found = Annotations.from_stack(stack).find_warning(
        "*", Match.string_like_regexp("target_utilization = 0.7 is never passed.*= 0.14")
    )
    assert len(found) == warnings
