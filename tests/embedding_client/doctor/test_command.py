"""All checks run, whatever one of them does, and the report has a line for each."""

import json
import threading
from itertools import chain
from types import SimpleNamespace

import pytest

from embedding_client.doctor import SkippedError, command, failed, ok, skipped, warning
from embedding_client.doctor.command import (
    CHECKS,
    Check,
    Checked,
    as_json,
    as_lines,
    examine,
    report,
    run_check,
)
from embedding_client.doctor.probes import AwsCallError
from tests.fixtures.waiting import PATIENCE

from .conftest import FAILED, OK, SKIPPED, URL, WARNING, raises

RESULTS = [
    Checked(Check("Access", "signed", None), ok("200", status=200)),
    Checked(Check("Access", "dns", None), warning("slow", "look at it")),
    Checked(Check("Release", "weights", None), failed("two versions", "clear them")),
    Checked(Check("Parts", "batch", None), skipped("off")),
]


@pytest.mark.parametrize(
    ("error", "state", "found"),
    [
        (SkippedError("no permission for a:B"), SKIPPED, "no permission for a:B"),
        (AwsCallError("a:B", "Code", "why"), WARNING, "the check could not run: a:B: why"),
        (KeyError("x"), WARNING, "the check failed: KeyError: 'x'"),
    ],
)
def test_an_error_of_a_check_is_its_finding(error, state, found):
    """It stops no other check."""
    finding = run_check(Check("Access", "signed", raises(error)), None)
    assert (finding.state, finding.found) == (state, found)


def test_results_come_in_the_order_of_the_table(monkeypatch):
    """Whichever check ends first."""
    table = [Check("A", str(number), lambda _: ok("")) for number in range(50)]
    monkeypatch.setattr(command, "CHECKS", table)
    ended = []
    results = list(examine(None, lambda: ended.append(1)))
    assert [result.check for result in results] == table
    assert len(ended) == 50


def test_a_check_without_an_end_is_skipped(monkeypatch):
    """The others have their results."""
    stop, answered = threading.Event(), threading.Event()
    table = [Check("A", "late", lambda _: ok(str(stop.wait()))), Check("A", "b", lambda _: ok(""))]
    monkeypatch.setattr(command, "CHECKS", table)
    # The time is over as soon as the other check has its result.
    times = chain([0.0], iter(lambda: float(answered.wait(PATIENCE)), None))
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=times.__next__))
    monkeypatch.setattr(command, "_SECONDS", 1)
    late, other = examine(None, answered.set)
    stop.set()
    assert (late.result.state, late.result.found) == (SKIPPED, "no result after 1 s")
    assert other.result.state == OK


def test_the_names_of_the_checks_are_unique():
    """Programs find a check by its name."""
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)


def test_the_report_has_a_line_for_each_check_and_one_for_what_to_do():
    """Grouped; checks that were skipped for one reason share a line; a summary is the last."""
    lines = list(as_lines(RESULTS, title="dev", color=False))
    assert lines == [
        "dev",
        "",
        "Access",
        "  ok       signed          200",
        "  warning  dns             slow",
        "                           to do: look at it",
        "",
        "Release",
        "  failed   weights         two versions",
        "                           to do: clear them",
        "",
        "skipped batch: off",
        "",
        "1 ok, 1 warning, 1 failed, 1 skipped",
    ]


def test_only_the_state_has_a_color():
    """As a terminal understands it."""
    lines = list(as_lines(RESULTS, title="dev", color=True))
    assert "  \x1b[32mok     \x1b[0m  signed          200" in lines
    assert sum("\x1b[" in line for line in lines) == 3


@pytest.mark.parametrize(("count", "state"), [(1, OK), (2, WARNING), (3, FAILED), (4, FAILED)])
def test_the_state_for_programs_is_the_worst(count, state):
    """A skipped check has not failed."""
    found = as_json(RESULTS[:count], url=URL, environment=None)
    assert found["state"] == state
    assert json.loads(json.dumps(found))["checks"][0] == {
        "group": "Access",
        "name": "signed",
        "state": "ok",
        "found": "200",
        "advice": "",
        "data": {"status": 200},
    }


@pytest.mark.parametrize(("finding", "status"), [(RESULTS[1], 0), (RESULTS[2], 1), (RESULTS[3], 0)])
def test_only_an_illness_fails_the_command(monkeypatch, capsys, snapshot, finding, status):
    """A warning does not."""
    monkeypatch.setattr(command, "CHECKS", [Check("A", "b", lambda _: finding.result)])
    assert report(snapshot(url="http://127.0.0.1:9"), as_program=False) == status
    assert finding.result.found in capsys.readouterr().out


def test_a_report_has_its_lines_although_aws_does_not_answer(monkeypatch, capsys, snapshot, aws):
    """The title has what was given; each check says why it could not run."""
    aws.refuses("sts", "get_caller_identity", "InternalFailure", "later")
    checks = [Check("A", "b", lambda snapshot: ok(str(snapshot.url())))]
    monkeypatch.setattr(command, "CHECKS", checks)
    assert report(snapshot(url=None, environment="dev"), as_program=False) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("dev\n")
    assert "the check could not run: sts:GetCallerIdentity: later" in printed
