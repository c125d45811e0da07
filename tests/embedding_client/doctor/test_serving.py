"""The vector space against those that it should be, and the golden vectors."""

import json
from datetime import timedelta

import httpx2
import pytest

from embedding_client.doctor import SkippedError, ago, serving
from embedding_client.doctor.serving import (
    check_cold_start,
    check_provisioned,
    check_space,
    check_throttling,
)

from .conftest import ALIAS, FAILED, NOW, OK, SPACE, URL, WARNING, deployed, resources

OTHER = "model@2/int8/abc/384"


def served(space=SPACE):
    """Return an endpoint that answers with a vector."""
    headers = {"x-vector-space": space}
    return lambda _: httpx2.Response(200, json={"embedding": [1]}, headers=headers)


LOCAL = "http://127.0.0.1:9000"


@pytest.mark.parametrize(
    ("stored", "state"),
    [
        (SPACE, OK),
        (SPACE.removesuffix("/384"), OK),
        (SPACE.replace("384", "128"), FAILED),
        (OTHER, FAILED),
    ],
)
def test_the_space_of_stored_vectors_is_compared(snapshot, stored, state):
    """It may be given without dimensions; the finding has both spaces."""
    found = check_space(snapshot(served(), url=LOCAL, vector_space=stored))
    name = "that of the stored vectors (--vector-space)"
    like = f"{SPACE}; equal to {name}" if state == OK else f"{SPACE}, and {stored} is {name}"
    assert (found.state, found.found) == (state, like)
    assert "--accept-vector-space" not in found.advice


def test_the_space_is_remembered_until_another_one_is_accepted(snapshot, aws):
    """A changed space is failed in every run until it is accepted."""
    file = snapshot().memory
    first = check_space(snapshot(served(), url=LOCAL))
    assert first.found == f"{SPACE}; remembered for the next time"
    assert json.loads(file.read_text()) == {LOCAL: SPACE}
    for _ in range(2):
        found = check_space(snapshot(served(OTHER), url=LOCAL))
        assert found.found == f"{OTHER}, and {SPACE} is that of the last use from this machine"
        assert "--accept-vector-space" in found.advice
    accepted = check_space(snapshot(served(OTHER), url=LOCAL, accept_vector_space=True))
    assert accepted.state == OK
    again = check_space(snapshot(served(OTHER), url=LOCAL))
    assert again.found == f"{OTHER}; equal to that of the last use from this machine"


def test_the_spaces_of_two_models_are_named(snapshot):
    """The reranker's comes after the vectors', and a version without it is not another one."""

    def both(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/health":
            return httpx2.Response(200, json={"rerank": {"score_space": "ranker@1"}})
        return served()(request)

    pair = f"{SPACE} + rerank:ranker@1"
    for stored in (SPACE, pair, "ranker@1"):
        found = check_space(snapshot(both, url=LOCAL, vector_space=stored))
        assert (found.state, found.found.startswith(pair)) == (OK, True)
    stored = f"{SPACE} + rerank:ranker@2"
    assert check_space(snapshot(both, url=LOCAL, vector_space=stored)).state == FAILED


def test_a_damaged_memory_is_no_obstacle(snapshot):
    """It is written again."""
    file = snapshot().memory
    file.parent.mkdir()
    for content in ("{", "[]"):
        file.write_text(content)
        assert check_space(snapshot(served(), url=LOCAL)).state == OK
        assert list(json.loads(file.read_text()).values()) == [SPACE]


def test_the_space_of_the_last_deploy_is_an_output_of_the_stack(snapshot, aws):
    """The check of the release records it there."""
    deployed(aws, EndpointCheckVectorSpace1A2B=OTHER)
    found = check_space(snapshot(served()))
    assert found.found == f"{SPACE}, and {OTHER} is that of the last deploy"


def test_the_url_does_not_need_a_slash(snapshot):
    """The endpoint's address is the same with and without it."""
    assert snapshot(url=f"{URL}/").url() == URL


def event(ago=timedelta(), kind="platform.report", **record):
    return {
        "timestamp": int((NOW - ago).timestamp() * 1000),
        "message": json.dumps({"type": kind, "record": record}),
    }


def logged(aws, *pages, **configuration):
    """Answer with pages of the function's log."""
    deployed(aws)
    aws.answers("lambda", "get_function_configuration", configuration)
    for page in pages:
        aws.answers("logs", "filter_log_events", page)


@pytest.mark.parametrize(
    ("record", "state", "words"),
    [
        ({"metrics": {"initDurationMs": 812.4}}, OK, "initialization of 812 ms"),
        ({"metrics": {"restoreDurationMs": 812.4}}, OK, "restore of a snapshot of 812 ms"),
        (
            {"initializationType": "provisioned-concurrency", "metrics": {"durationMs": 812.4}},
            OK,
            "initialization of provisioned concurrency of 812 ms",
        ),
        # Lambda restarts it while the caller waits.
        ({"metrics": {"initDurationMs": 10_000}}, WARNING, "initialization of 10,000 ms"),
    ],
)
def test_each_kind_of_cold_start_is_recognized(aws, snapshot, record, state, words):
    """By the platform's record."""
    logged(aws, {"events": [event(timedelta(minutes=30), **record)]})
    found = check_cold_start(snapshot())
    assert (found.state, found.found) == (state, f"{words}, 30 minutes ago")


def test_the_newest_is_found_in_the_shortest_time_that_has_one(aws, snapshot):
    """The log is read from its start, so a day is read only if the last hour has none."""
    first, second = (
        {"events": [event(timedelta(hours=hours), metrics={"initDurationMs": duration})]}
        for hours, duration in ((5, 1), (2, 2))
    )
    group = {"LogGroup": "/embedder/logs"}
    logged(aws, {"events": []}, first | {"nextToken": "b"}, second, LoggingConfig=group)
    assert check_cold_start(snapshot()).found == "initialization of 2 ms, 2 hours ago"


def test_a_log_that_is_too_long_is_not_searched_to_its_end(aws, snapshot, monkeypatch):
    """The oldest events come first, so the last one is unknown."""
    monkeypatch.setattr(serving, "_MOST_PAGES", 1)
    logged(aws, *({"events": [], "nextToken": token} for token in ("b", "c")))
    with pytest.raises(SkippedError, match="the log is too long to search"):
        check_cold_start(snapshot())


def test_a_log_without_a_cold_start_is_well(aws, snapshot):
    """After a week without one, nothing is known."""
    logged(aws, *[{"events": []}] * 3)
    found = check_cold_start(snapshot())
    assert (found.state, found.found) == (OK, "none logged in 7 days")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (7200, "2 hours ago"),
        (86400, "1 day ago"),
    ],
)
def test_times_in_words(seconds, words):
    """In the largest unit."""
    assert ago(timedelta(seconds=seconds)) == words


def metric(aws, values):
    """Answer with values by the minutes since their period began."""
    times = [NOW - timedelta(minutes=minutes) for minutes in values]
    result = {"Id": "value", "Timestamps": times, "Values": list(values.values())}
    aws.answers("cloudwatch", "get_metric_data", {"MetricDataResults": [result]})


@pytest.mark.parametrize(
    ("used", "throttles", "state"),
    [
        ({1: 0}, {}, OK),
        ({1: 79}, {}, OK),
        ({1: 80}, {}, WARNING),
        ({1: 10}, {600: 3}, WARNING),
        ({1: 10}, {600: 1, 5: 2}, FAILED),
        ({}, {}, OK),
    ],
)
def test_throttles_of_now_are_ill_and_those_of_the_day_a_warning(
    aws, snapshot, used, throttles, state
):
    """As is less than a fifth of headroom."""
    deployed(aws)
    aws.answers("lambda", "get_function_concurrency", {"ReservedConcurrentExecutions": 100})
    metric(aws, used)
    metric(aws, throttles)
    found = check_throttling(snapshot())
    assert found.state == state
    assert found.found.endswith("of 100 (reserved)")


def test_the_limit_is_the_reserved_concurrency(aws, snapshot):
    """And its use that of the function."""
    deployed(aws)
    aws.answers("lambda", "get_function_concurrency", {"ReservedConcurrentExecutions": 20})
    metric(aws, {700: 4, 5: 3})
    metric(aws, {700: 1, 5: 2, 15: 1})
    found = check_throttling(snapshot())
    assert found.found == (
        "3 throttled in the last 15 minutes; 4 throttled in a day; at most 4 of 20 (reserved)"
    )


def test_without_it_the_limit_is_the_accounts(aws, snapshot):
    """The capacity that others reserve is not in it."""
    deployed(aws)
    aws.answers("lambda", "get_function_concurrency", {})
    limits = {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 900}
    aws.answers("lambda", "get_account_settings", {"AccountLimit": limits})
    metric(aws, {})
    metric(aws, {})
    found = check_throttling(snapshot())
    assert found.found == (
        "0 throttled in a day; no data on concurrency of 900 (unreserved in the account)"
    )


READY = {
    "FunctionArn": ALIAS,
    "RequestedProvisionedConcurrentExecutions": 2,
    "AvailableProvisionedConcurrentExecutions": 2,
    "Status": "READY",
}
LATE = READY | {"AvailableProvisionedConcurrentExecutions": 1, "Status": "IN_PROGRESS"}
BROKEN = READY | {"Status": "FAILED", "StatusReason": "FUNCTION_ERROR_INIT_FAILURE"}
SUSPENDED = {
    "SuspendedState": {"DynamicScalingInSuspended": True, "ScheduledScalingSuspended": False}
}


@pytest.mark.parametrize(
    ("configs", "target", "spilled", "state", "words"),
    [
        ([READY], {}, {}, OK, "2 of 2 available (READY)"),
        ([], {}, {}, WARNING, "set, but nothing is allocated"),
        ([LATE], {}, {}, WARNING, "1 of 2 available (IN_PROGRESS)"),
        ([BROKEN], {}, {}, FAILED, "2 of 2 available (FAILED): FUNCTION_ERROR_INIT_FAILURE"),
        (
            [READY],
            {},
            {600: 5, 1: 2},
            WARNING,
            "2 of 2 available (READY); 7 requests in a day found none free, 2 of them in the last",
        ),
        ([READY], SUSPENDED, {}, FAILED, "autoscaling is suspended: DynamicScalingInSu"),
        # The stack does not scale it: it is left over, and billed.
        ([READY], None, {}, FAILED, "allocated to live and billed, although it is not set"),
        ([], None, {}, OK, "none"),
    ],
)
def test_provisioned_concurrency(aws, snapshot, *, configs, target, spilled, state, words):
    """The allocation, whether it scales, and the requests beyond it."""
    deployed(aws)
    listed = {"ProvisionedConcurrencyConfigs": configs}
    aws.answers("lambda", "list_provisioned_concurrency_configs", listed)
    kind = "Lambda::Alias" if target is None else "ApplicationAutoScaling::ScalableTarget"
    aws.answers("cloudformation", "list_stack_resources", resources({f"AWS::{kind}": ["name"]}))
    if target is not None:
        described = {
            "ServiceNamespace": "lambda",
            "ResourceId": "function:embedder:live",
            "ScalableDimension": "x",
            "MinCapacity": 2,
            "MaxCapacity": 2,
            "RoleARN": "x",
            "CreationTime": NOW,
            **target,
        }
        asked = {"ServiceNamespace": "lambda", "ResourceIds": ["function:embedder:live"]}
        answer = {"ScalableTargets": [described]}
        aws.answers("application-autoscaling", "describe_scalable_targets", answer, asked)
        metric(aws, spilled)
    found = check_provisioned(snapshot())
    assert (found.state, found.found.startswith(words)) == (state, True)
