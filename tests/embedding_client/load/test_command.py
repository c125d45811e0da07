"""The command, from its arguments to its report."""

import json
import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from .conftest import answered, vectors


def test_a_test_names_its_target_first_and_reports(load, served):
    """The table is printed, and the JSON is in the file."""
    served.answers.cold = {0}
    ran = load("--rate", "50")
    assert ran.status == 0
    lines = ran.err.splitlines()
    assert lines[0] == f"target: {served.url}/ (sentence-transformers/all-MiniLM-L6-v2)"
    assert lines[1].startswith("plan: ")
    sent = len(served.answers.received)
    assert ran.report["requests"]["ok"] == ran.report["requests"]["sent"] == sent > 0
    assert ran.report["cold_starts"]["requests"] == 1
    assert ran.report["plan"]["tokens"] == [8, 256]
    assert f"requests sent{sent:>33,}" in ran.out


def test_a_reranker_gets_a_query_and_passages(load, served):
    """Each pair has the tokens of the plan, and an answer without all scores has failed."""
    served.answers.info = {"score_space": "r@1"}

    def scored(number, event):
        assert event["rawPath"] == "/rerank"
        body = json.loads(event["body"])
        scores = [{"index": at, "score": 0.5} for at, _ in enumerate(body["texts"])]
        words = [len(f"{body['query']} {text}".split()) + 3 for text in body["texts"]]
        headers = {"x-compute-tokens": str(sum(words))}
        return answered(200, scores[number % 2 :], **headers)

    served.answers.answer = scored
    ran = load("--rate", "20", "--tokens", "30..30")
    requests = ran.report["requests"]
    assert ran.status == 3
    assert requests["ok"] in {requests["failed"], requests["failed"] + 1}
    assert ran.report["plan"]["passages"] == 100
    assert ran.report["tokens"] == requests["ok"] * 100 * 30
    assert "30 tokens a pair, 100 pairs a request" in ran.out


def test_json_is_printed_instead_of_the_table(load):
    """The same as in the file."""
    ran = load("--rate", "30", "--json")
    assert '"version": 2' in ran.out


def test_throttled_requests_are_a_result_and_no_error(load, served):
    """The exit status is 0, and they are in the report."""

    def throttle(number, event):
        return answered(429, {"Reason": "x"}) if number % 2 else vectors(number, event)

    served.answers.answer = throttle
    ran = load("--rate", "50")
    assert ran.status == 0
    assert ran.report["requests"]["throttled"] == ran.report["statuses"]["429"] > 0
    assert "throttled (429)" in ran.out


def test_failed_requests_are_an_exit_status(load, served):
    """3, and the report is written, without what the server said."""
    served.answers.answer = lambda *_: answered(500, {"error": "secret inside"})
    ran = load("--rate", "30")
    assert ran.status == 3
    assert ran.report["requests"]["failed"] > 0
    assert ran.report["latency_ms"] is None
    assert "secret inside" not in ran.out + ran.err


def test_an_endpoint_that_refuses_the_caller_ends_the_test_before_it_begins(
    load, served, monkeypatch
):
    """With one request instead of thousands."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    ran = load()
    assert (ran.status, ran.report, served.answers.received) == (1, None, [])
    assert "The security token included in the request is invalid." in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens", "8..400"], "found: --tokens up to 400; allowed: up to 256 for"),
        (["--output", "."], "--output must be a file that can be written"),
    ],
)
def test_what_cannot_succeed_is_refused_before_the_test(load, served, arguments, message):
    """The requests would be billed for nothing."""
    ran = load(*arguments)
    assert (ran.status, message in ran.err) == (2, True)
    assert served.answers.received == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", "0"], "found: 0; allowed: 0.001 to 10,000"),
        (["--minutes", "nan"], "found: nan; allowed: 0.01 to 1,440"),
        (["--tokens", "9..8"], "found: 9..8; allowed: a number or a range such as 8..400"),
        (["--requests", "1.5"], "found: 1.5; allowed: a whole number from 1 to 10,000,000"),
        (["--url", ""], "there is no endpoint: give --url, or set EMBEDDING_URL"),
    ],
)
def test_invalid_arguments_are_refused_with_what_is_allowed(load, arguments, message):
    """With status 2."""
    ran = load(*arguments)
    assert (ran.status, message in ran.err) == (2, True)


def test_the_limit_of_open_files_is_raised_or_named(load, monkeypatch):
    """On macOS it is 256 by default, and 1,000 connections would fail."""
    limits = [(256, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    assert load("--connections", "1000").status == 0
    assert limits[-1] == (1064, 4096)
    refused = load("--connections", "5000")
    assert refused.status == 2
    assert "found: --connections 5,000; allowed: up to 4,032." in refused.err


def test_ctrl_c_ends_the_test_with_a_report_and_the_same_command_works_again(
    load, served, tmp_path
):
    """The exit status is 130, and the next run replaces the report."""
    program = "import sys; from embedding_client._cli import main; main()"
    report = tmp_path / "report.json"
    options = ["--url", served.url, "--output", str(report), "--rate", "30"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, "load", *options, "--minutes", "5"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while len(served.answers.received) < 10:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, err
    assert "it was stopped" in out
    assert '"end": "interrupted"' in report.read_text()
    again = load("--rate", "30")
    assert (again.status, again.report["end"]) == (0, "time")


def test_the_client_says_which_extra_is_missing(load, monkeypatch):
    """`embed` itself does not install the generator's HTTP client."""
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "embedding_client._load_command", raising=False)
    monkeypatch.delitem(sys.modules, "embedding_client._load_sender", raising=False)
    ran = load()
    assert ran.err == "error: embed load needs: pip install 'embedding-client[load]'.\n"
