"""Throttling headroom, autoscaling, provisioned concurrency, spillover."""

from datetime import timedelta

import pytest

from embedding_client.doctor.capacity import (
    Concurrency,
    Sums,
    check_autoscaling,
    check_provisioned,
    check_spillover,
    check_throttling,
    judge_provisioned,
    judge_throttling,
)
from embedding_client.doctor.findings import State

from .conftest import ALIAS, NOW, deployed, resources

TARGET = {
    "ServiceNamespace": "lambda",
    "ResourceId": "function:embedder:live",
    "ScalableDimension": "lambda:function:ProvisionedConcurrency",
    "MinCapacity": 1,
    "MaxCapacity": 4,
    "RoleARN": "role",
    "CreationTime": NOW,
}

LISTED = ("cloudformation", "list_stack_resources")
SCALED = {"AWS::ApplicationAutoScaling::ScalableTarget": ["target"]}


def config(requested=2, available=2, status="READY", **more):
    return {
        "FunctionArn": ALIAS,
        "RequestedProvisionedConcurrentExecutions": requested,
        "AvailableProvisionedConcurrentExecutions": available,
        "Status": status,
        **more,
    }


def metric(aws, values):
    """Answer with values by the minutes since their period began."""
    times = [NOW - timedelta(minutes=minutes) for minutes in values]
    result = {"Id": "value", "Timestamps": times, "Values": list(values.values())}
    aws.answers("cloudwatch", "get_metric_data", {"MetricDataResults": [result]})


@pytest.mark.parametrize(
    ("used", "throttles", "state"),
    [
        (0, Sums(0, 0), State.OK),
        (79, Sums(0, 0), State.OK),
        (80, Sums(0, 0), State.WARNING),
        (10, Sums(0, 3), State.WARNING),
        (10, Sums(2, 3), State.ILL),
        (None, Sums(0, 0), State.OK),
    ],
)
def test_throttles_of_now_are_ill_and_those_of_the_day_a_warning(used, throttles, state):
    """As is less than a fifth of headroom."""
    found = judge_throttling(Concurrency(used, 100, reserved=True), throttles)
    assert found.state == state
    assert found.found.endswith("of 100 (reserved)")


def test_the_limit_is_the_reserved_concurrency(aws, facts):
    """And its use that of the function."""
    deployed(aws)
    aws.answers("lambda", "get_function_concurrency", {"ReservedConcurrentExecutions": 20})
    metric(aws, {700: 4, 5: 3})
    metric(aws, {700: 1, 5: 2, 15: 1})
    found = check_throttling(facts())
    assert found.found == (
        "3 throttled in the last 15 minutes; 4 throttled in a day; at most 4 of 20 (reserved)"
    )


def test_without_it_the_limit_is_the_accounts(aws, facts):
    """What is reserved for others is not in it."""
    deployed(aws)
    aws.answers("lambda", "get_function_concurrency", {})
    limits = {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 900}
    aws.answers("lambda", "get_account_settings", {"AccountLimit": limits})
    metric(aws, {})
    metric(aws, {})
    found = check_throttling(facts())
    assert found.found == (
        "0 throttled in a day; no data on concurrency of 900 (unreserved in the account)"
    )


def test_suspended_scaling_is_ill(aws, facts):
    """With the command that resumes it."""
    deployed(aws)
    state = {"DynamicScalingInSuspended": True, "ScheduledScalingSuspended": False}
    targets = {"ScalableTargets": [TARGET | {"SuspendedState": state}]}
    asked = {"ServiceNamespace": "lambda", "ResourceIds": ["function:embedder:live"]}
    aws.answers("application-autoscaling", "describe_scalable_targets", targets, asked)
    found = check_autoscaling(facts())
    assert (found.state, found.found) == (
        State.ILL,
        "1 to 4, suspended: DynamicScalingInSuspended",
    )
    assert "scripts/deploy dev" in found.advice


@pytest.mark.parametrize(
    ("targets", "words"),
    [([TARGET], "1 to 4, active"), ([], "no autoscaling: no provisioned concurrency is set")],
)
def test_active_scaling_and_none_are_well(aws, facts, targets, words):
    """Nothing to do."""
    deployed(aws)
    aws.answers(
        "application-autoscaling", "describe_scalable_targets", {"ScalableTargets": targets}
    )
    found = check_autoscaling(facts())
    assert (found.state, found.found) == (State.OK, words)


@pytest.mark.parametrize(
    ("configs", "is_set", "state", "words"),
    [
        ([], False, State.OK, "none"),
        ([], True, State.WARNING, "set, but nothing is allocated"),
        ([config()], True, State.OK, "2 of 2 available (READY)"),
        (
            [config(available=1, status="IN_PROGRESS")],
            True,
            State.WARNING,
            "1 of 2 available (IN_PROGRESS)",
        ),
        (
            [config(available=0, status="FAILED", StatusReason="FUNCTION_ERROR_INIT_FAILURE")],
            True,
            State.ILL,
            "0 of 2 available (FAILED): FUNCTION_ERROR_INIT_FAILURE",
        ),
        (
            [config()],
            False,
            State.ILL,
            "allocated to live and billed, although it is not set",
        ),
    ],
)
def test_provisioned_concurrency(configs, is_set, state, words):
    """What is allocated, and whether it should be."""
    found = judge_provisioned(configs, is_set=is_set, name="dev")
    assert (found.state, found.found) == (state, words)


def test_it_is_set_if_the_stack_has_a_target(aws, facts):
    """Otherwise it is left over."""
    deployed(aws)
    aws.answers(
        "lambda",
        "list_provisioned_concurrency_configs",
        {"ProvisionedConcurrencyConfigs": [config()]},
    )
    aws.answers(*LISTED, resources({"AWS::Lambda::Alias": ["live"]}))
    found = check_provisioned(facts())
    assert (found.state, found.advice) == (State.ILL, "scripts/deploy dev removes it")


def test_spillover_is_a_warning(aws, facts):
    """It is only looked at with provisioned concurrency."""
    deployed(aws)
    aws.answers(*LISTED, resources(SCALED))
    metric(aws, {600: 5, 1: 2})
    found = check_spillover(facts())
    assert (found.state, found.found) == (
        State.WARNING,
        "7 requests in a day, 2 of them in the last 15 minutes",
    )
    deployed(aws)
    aws.answers(*LISTED, resources(SCALED))
    metric(aws, {})
    assert check_spillover(facts()).found == "no request in a day"
    deployed(aws)
    aws.answers(*LISTED, resources({}))
    assert check_spillover(facts()).state == State.SKIPPED
