"""A warm call by its parts, and the last logged cold start."""

import json
from datetime import timedelta

import httpx
import pytest

from embedding_client.doctor import speed
from embedding_client.doctor.findings import SkippedError, State
from embedding_client.doctor.speed import (
    ColdStart,
    Warm,
    check_cold,
    check_warm,
    cold_start_of,
    judge_cold,
    judge_warm,
)
from embedding_client.doctor.words import ago

from .conftest import NOW, SPACE, deployed

GROUP = "/embedder/logs"


def test_the_median_call_is_split():
    """What the endpoint did not use is the network and Lambda."""
    calls = [Warm(90.4, 60, 2, 50), Warm(30.2, 12, 0, 9), Warm(31.2, 12, 0, 9)]
    found = judge_warm(calls)
    assert found.found == ("31 ms: tokenizer <1, model 9, network and Lambda 19 (median of 3)")
    assert found.data == {"milliseconds": 31.2, "tokenizer": 0, "model": 9, "network": 19.2}


def test_no_text_is_sent_twice(facts):
    """A cache would answer it."""
    texts = []

    def answer(request):
        body = json.loads(request.content)
        texts.append(body.get("inputs") or body.get("text"))
        times = {f"x-{name}-time": "1" for name in ("total", "tokenization", "inference")}
        times["x-vector-space"] = SPACE
        return httpx.Response(200, json={"embedding": [1]}, headers=times)

    assert check_warm(facts(answer)).state == State.OK
    assert len(texts) == len(set(texts)) == 6


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
    found = judge_cold(start, NOW)
    assert (found.state, found.found) == (State.OK, f"{kind} of 812 ms, 3 hours ago")


def test_an_initialization_at_lambdas_limit_is_a_warning():
    """Lambda restarts it while the caller waits."""
    found = judge_cold(ColdStart("initialization", 10_000, NOW), NOW)
    assert (found.state, found.advice) == (State.WARNING, "docs/runbook.md#initdurationmax")


def test_the_newest_is_found_in_the_shortest_time_that_has_one(aws, facts):
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
    assert check_cold(facts()).found == "initialization of 2 ms, 2 hours ago"


def test_a_log_that_is_too_long_is_not_searched_to_its_end(aws, facts, monkeypatch):
    """The oldest events come first, so the last one is unknown."""
    monkeypatch.setattr(speed, "_MOST_PAGES", 1)
    deployed(aws)
    aws.answers("lambda", "get_function_configuration", {})
    for token in ("b", "c"):
        aws.answers("logs", "filter_log_events", {"events": [], "nextToken": token})
    with pytest.raises(SkippedError, match="the log is too long to search"):
        check_cold(facts())


def test_a_log_without_a_cold_start_is_well(aws, facts):
    """After a week without one, nothing is known."""
    deployed(aws)
    aws.answers("lambda", "get_function_configuration", {})
    for _ in range(3):
        aws.answers("logs", "filter_log_events", {"events": []})
    found = check_cold(facts())
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
