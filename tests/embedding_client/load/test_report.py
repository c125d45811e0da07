"""Percentiles, the report and its table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedding_client._load_command import as_report, as_table, percentiles
from embedding_client._load_sender import End, Kind, Outcome

ABOUT = {
    "endpoint": {"url": "https://a/", "model": "m", "cold": True},
    "plan": {"rate": 5.0, "tokens": (8, 400), "connections": 1000, "passages": 0},
}


def outcome(kind=Kind.OK, *, due=0.0, taken=None, ended=None, cold=False, waited=False):
    taken = due if taken is None else taken
    ended = taken + 0.01 if ended is None else ended
    return Outcome(kind, 200, due, taken, taken, ended, 10, cold, waited)


def report_of(outcomes, *, end=End.TIME, planned=None):
    planned = len(outcomes) if planned is None else planned
    return as_report(outcomes, end=end, planned=planned, about=ABOUT)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=2000))
def test_percentiles_are_those_of_numpy(times):
    """By the inverse of the empirical distribution: each is one of the times."""
    found = percentiles(times)
    for name, share in {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "p99.9": 99.9}.items():
        expected = 1000 * np.percentile(times, share, method="inverted_cdf")
        assert found[name] == pytest.approx(expected, abs=1e-3), name
    assert found["max"] == pytest.approx(1000 * max(times), abs=1e-3)


def test_no_times_have_no_percentiles():
    """Zeros would look like a fast endpoint."""
    assert percentiles([]) is None


def test_a_refusal_is_not_among_the_latencies():
    """It comes fast, and would make the endpoint look better; a timeout belongs to them."""
    report = report_of(
        [
            outcome(ended=0.2),
            outcome(Kind.THROTTLED, ended=0.001),
            outcome(Kind.REFUSED, ended=0.001),
            outcome(Kind.TIMEOUT, ended=0.9),
        ]
    )
    assert report["latency_ms"]["p50"] == 200
    assert report["latency_ms"]["max"] == 900
    assert report["errors"] == 2
    assert report["requests"]["throttled"] == 1


def test_a_generator_that_is_late_is_told_from_a_busy_endpoint():
    """Late is what this process did not take in time; waiting for a connection is not."""
    on_time = [outcome(due=n / 10) for n in range(99)]
    waiting = report_of([*on_time, outcome(due=9.9, ended=12.0, waited=True)])["generator"]
    assert (waiting["late"], waiting["waited_for_connection"], waiting["fell_behind"]) == (
        0,
        1,
        False,
    )
    late = report_of([*on_time[:90], *(outcome(due=n, taken=n + 0.5) for n in range(9, 20))])
    assert (late["generator"]["late"], late["generator"]["fell_behind"]) == (11, True)
    few = report_of([*on_time, outcome(due=9.9, taken=10.0)])["generator"]
    assert (few["late"], few["fell_behind"]) == (1, False)


def test_requests_that_were_not_reached_are_counted():
    """Only if the time ended the test; another end leaves the rest of the plan on purpose."""
    some = [outcome(due=n / 10) for n in range(10)]
    report = report_of(some, planned=100)
    assert report["requests"]["not_reached"] == 90
    assert report["generator"]["fell_behind"] is True
    assert report_of(some, planned=100, end=End.INTERRUPTED)["requests"]["not_reached"] == 0


def test_the_table_has_what_happened(snapshot):
    """Kinds that did not occur have no line; each note says what to do."""
    outcomes = [
        *(outcome(due=n / 10, cold=n == 0) for n in range(90)),
        *(outcome(Kind.THROTTLED, due=9.0, taken=9.2) for _ in range(20)),
        outcome(Kind.FAILED, due=9.5, waited=True),
    ]
    assert as_table(report_of(outcomes, planned=120)) == snapshot


def test_a_test_without_an_answer_has_a_table_too():
    """Nothing was measured, and nothing divides by zero."""
    table = as_table(report_of([], end=End.INTERRUPTED))
    assert "ended after 0.0 s: it was stopped" in table
