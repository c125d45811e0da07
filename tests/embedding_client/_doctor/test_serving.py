"""The vector space against those that it should be, and the golden vectors."""

import json
from datetime import timedelta

import httpx
import pytest

from embedding_client._doctor import serving
from embedding_client._doctor.results import SkippedError, State, ago
from embedding_client._doctor.serving import (
    ColdStart,
    Concurrency,
    Spaces,
    Sums,
    check_cold_start,
    check_provisioned,
    check_space,
    check_throttling,
    cold_start_of,
    cold_start_result,
    provisioned_result,
    space_result,
    throttling_result,
)

from .conftest import ALIAS, NOW, SPACE, URL, deployed, resources

OTHER = "model@2/int8/abc/384"


def served(space=SPACE):
    """Return an endpoint that answers with a vector."""
    headers = {"x-vector-space": space}
    return lambda _: httpx.Response(200, json={"embedding": [1]}, headers=headers)


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("stored", "of the stored vectors (--vector-space)"),
        ("last", "of the last use from this machine"),
        ("recorded", "of the last deploy"),
    ],
)
def test_another_vector_space_is_ill(field, name):
    """The finding has both, and where the other one is from."""
    assert space_result(Spaces(SPACE, **{field: SPACE})).state == State.OK
    found = space_result(Spaces(SPACE, **{field: OTHER}))
    assert (found.state, found.found) == (State.FAILED, f"{SPACE}, and {OTHER} is that {name}")
    assert ("--accept-vector-space" in found.advice) == (field == "last")


def test_a_space_may_be_given_without_dimensions():
    """As for the client."""
    assert space_result(Spaces(SPACE, stored=SPACE.removesuffix("/384"))).state == State.OK
    assert space_result(Spaces(SPACE, stored=SPACE.replace("384", "128"))).state == State.FAILED


def test_the_space_is_remembered_until_another_one_is_accepted(snapshot, aws):
    """A changed space is failed in every run until it is accepted."""
    file = snapshot().probes.memory
    local = "http://127.0.0.1:9000"
    first = check_space(snapshot(served(), url=local))
    assert first.found == f"{SPACE}; remembered for the next time"
    assert json.loads(file.read_text()) == {local: SPACE}
    for _ in range(2):
        assert check_space(snapshot(served(OTHER), url=local)).state == State.FAILED
    assert (
        check_space(snapshot(served(OTHER), url=local, accept_vector_space=True)).state == State.OK
    )
    again = check_space(snapshot(served(OTHER), url=local))
    assert again.found == f"{OTHER}; equal to that of the last use from this machine"


def test_the_spaces_of_two_models_are_named(snapshot):
    """The reranker's comes after the vectors', and a version without it is not another one."""

    def both(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/health":
            return httpx.Response(200, json={"rerank": {"score_space": "ranker@1"}})
        return served()(request)

    pair = f"{SPACE} + rerank:ranker@1"
    found = check_space(snapshot(both, url="http://127.0.0.1:9000"))
    assert found.found.startswith(pair)
    for recorded in (SPACE, pair, "ranker@1"):
        assert space_result(Spaces(pair, recorded=recorded)).state == State.OK
    other = space_result(Spaces(pair, recorded=f"{SPACE} + rerank:ranker@2"))
    assert other.state == State.FAILED


def test_a_damaged_memory_is_no_obstacle(snapshot):
    """It is written again."""
    file = snapshot().probes.memory
    file.parent.mkdir()
    for content in ("{", "[]"):
        file.write_text(content)
        assert check_space(snapshot(served(), url="http://127.0.0.1:9000")).state == State.OK
        assert list(json.loads(file.read_text()).values()) == [SPACE]


def test_the_space_of_the_last_deploy_is_an_output_of_the_stack(snapshot, aws):
    """The check of the release records it there."""
    deployed(aws, EndpointCheckVectorSpace1A2B=OTHER)
    found = check_space(snapshot(served()))
    assert found.found == f"{SPACE}, and {OTHER} is that of the last deploy"


def test_without_an_answer_vectors_are_skipped(snapshot):
    """The answer itself is judged elsewhere."""
    with pytest.raises(SkippedError, match="no vector in answer to a signed request"):
        check_space(snapshot())


def test_the_url_does_not_need_a_slash(snapshot):
    """The endpoint's address is the same with and without it."""
    assert snapshot(url=f"{URL}/").url() == URL


GROUP = "/embedder/logs"


def event(ago=timedelta(), kind="platform.report", **record):
    return {
        "timestamp": int((NOW - ago).timestamp() * 1000),
        "message": json.dumps({"type": kind, "record": record}),
    }


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        ({"metrics": {"durationMs": 3, "initDurationMs": 812.4}}, "initialization"),
        ({"metrics": {"durationMs": 3, "restoreDurationMs": 812.4}}, "restore of a snapshot"),
        (
            {
                "initializationType": "provisioned-concurrency",
                "metrics": {"durationMs": 812.4},
            },
            "initialization of provisioned concurrency",
        ),
    ],
)
def test_each_kind_of_cold_start_is_recognized(record, kind):
    """By the platform's record."""
    start = cold_start_of(event(timedelta(hours=3), **record))
    found = cold_start_result(start, NOW)
    assert (found.state, found.found) == (State.OK, f"{kind} of 812 ms, 3 hours ago")


def test_an_initialization_at_lambdas_limit_is_a_warning():
    """Lambda restarts it while the caller waits."""
    found = cold_start_result(ColdStart("initialization", 10_000, NOW), NOW)
    assert (found.state, found.advice) == (State.WARNING, "docs/runbook.md#initdurationmax")


def test_the_newest_is_found_in_the_shortest_time_that_has_one(aws, snapshot):
    """The log is read from its start, so a day is read only if the last hour has none."""
    deployed(aws)
    configuration = {"LoggingConfig": {"LogGroup": GROUP}}
    aws.answers("lambda", "get_function_configuration", configuration)
    aws.answers("logs", "filter_log_events", {"events": []})
    aws.answers(
        "logs",
        "filter_log_events",
        {"events": [event(timedelta(hours=5), metrics={"initDurationMs": 1})], "nextToken": "b"},
    )
    aws.answers(
        "logs",
        "filter_log_events",
        {"events": [event(timedelta(hours=2), metrics={"initDurationMs": 2})]},
    )
    assert check_cold_start(snapshot()).found == "initialization of 2 ms, 2 hours ago"


def test_a_log_that_is_too_long_is_not_searched_to_its_end(aws, snapshot, monkeypatch):
    """The oldest events come first, so the last one is unknown."""
    monkeypatch.setattr(serving, "_MOST_PAGES", 1)
    deployed(aws)
    aws.answers("lambda", "get_function_configuration", {})
    for token in ("b", "c"):
        aws.answers("logs", "filter_log_events", {"events": [], "nextToken": token})
    with pytest.raises(SkippedError, match="the log is too long to search"):
        check_cold_start(snapshot())


def test_a_log_without_a_cold_start_is_well(aws, snapshot):
    """After a week without one, nothing is known."""
    deployed(aws)
    aws.answers("lambda", "get_function_configuration", {})
    for _ in range(3):
        aws.answers("logs", "filter_log_events", {"events": []})
    found = check_cold_start(snapshot())
    assert (found.state, found.found) == (State.OK, "none logged in 7 days")


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
        (0, Sums(0, 0), State.OK),
        (79, Sums(0, 0), State.OK),
        (80, Sums(0, 0), State.WARNING),
        (10, Sums(0, 3), State.WARNING),
        (10, Sums(2, 3), State.FAILED),
        (None, Sums(0, 0), State.OK),
    ],
)
def test_throttles_of_now_are_ill_and_those_of_the_day_a_warning(used, throttles, state):
    """As is less than a fifth of headroom."""
    found = throttling_result(Concurrency(used, 100, reserved=True), throttles)
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
    """What is reserved for others is not in it."""
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
SUSPENDED = {"SuspendedState": {"DynamicScalingInSuspended": True, "ScheduledScalingSuspended": 0}}


@pytest.mark.parametrize(
    ("configs", "target", "spilled", "state", "words"),
    [
        ([READY], {}, 0, State.OK, "2 of 2 available (READY)"),
        ([], {}, 0, State.WARNING, "set, but nothing is allocated"),
        ([LATE], {}, 0, State.WARNING, "1 of 2 available (IN_PROGRESS)"),
        ([BROKEN], {}, 0, State.FAILED, "2 of 2 available (FAILED): FUNCTION_ERROR_INIT_FAILURE"),
        ([READY], {}, 7, State.WARNING, "2 of 2 available (READY); 7 requests in a day found none"),
        ([READY], SUSPENDED, 0, State.FAILED, "autoscaling is suspended: DynamicScalingInSu"),
    ],
)
def test_provisioned_concurrency(configs, target, spilled, state, words):
    """What is allocated, whether it scales, and the requests beyond it."""
    found = provisioned_result(configs, [target], Sums(0, spilled), name="dev")
    assert (found.state, found.found.startswith(words)) == (state, True)


@pytest.mark.parametrize("is_set", [True, False])
def test_provisioned_concurrency_is_set_if_the_stack_scales_it(aws, snapshot, is_set):
    """Otherwise it is left over, and billed."""
    deployed(aws)
    listed = {"ProvisionedConcurrencyConfigs": [READY]}
    aws.answers("lambda", "list_provisioned_concurrency_configs", listed)
    kind = "AWS::ApplicationAutoScaling::ScalableTarget" if is_set else "AWS::Lambda::Alias"
    aws.answers("cloudformation", "list_stack_resources", resources({kind: ["name"]}))
    if is_set:
        asked = {"ServiceNamespace": "lambda", "ResourceIds": ["function:embedder:live"]}
        service = "application-autoscaling"
        aws.answers(service, "describe_scalable_targets", {"ScalableTargets": []}, asked)
        metric(aws, {600: 5, 1: 2})
    found = check_provisioned(snapshot())
    assert found.state == (State.WARNING if is_set else State.FAILED)
    assert ("7 requests in a day found none free, 2 of them" in found.found) == is_set
