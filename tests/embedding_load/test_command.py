"""The command, from its arguments to its report."""

import io
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import jsonschema
import pytest

from embedding_client import cli, load_command
from embedding_client.errors import CredentialsError
from embedding_load.arguments import parse
from embedding_load.target import Target

from .conftest import answered, vectors

NUMBER = {"type": "number", "minimum": 0}
COUNT = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}


def exactly(**fields):
    return {
        "type": "object",
        "properties": fields,
        "required": sorted(fields),
        "additionalProperties": False,
    }


def nullable(schema):
    return {"anyOf": [schema, {"type": "null"}]}


TIMES = nullable(
    exactly(**dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "p99.9", "max"), NUMBER))
)
KINDS = ("ok", "throttled", "refused", "failed", "timeout", "unreachable", "unanswered", "unsent")
SCHEMA = exactly(
    version={"const": 1},
    endpoint=exactly(url=TEXT, model=TEXT, vector_space=TEXT),
    plan=exactly(
        rate=NUMBER,
        peak_rate=NUMBER,
        shape={"enum": ["flat", "diurnal", "bursty"]},
        seconds=NUMBER,
        requests=COUNT,
        tokens={"type": "array", "items": COUNT, "minItems": 2, "maxItems": 2},
        seed={"type": "integer"},
        connections=COUNT,
        timeout_seconds=NUMBER,
    ),
    end={"enum": ["time", "requests", "budget", "interrupted"]},
    seconds=NUMBER,
    requests=exactly(**dict.fromkeys(("sent", *KINDS, "not_reached"), COUNT)),
    statuses={"type": "object", "additionalProperties": COUNT},
    latency_ms=TIMES,
    service_ms=TIMES,
    cold_starts=exactly(
        requests=COUNT,
        share={"type": "number", "minimum": 0, "maximum": 1},
        before_the_test={"type": "boolean"},
        latency_ms=TIMES,
    ),
    tokens=exactly(asked=COUNT, counted=COUNT),
    generator=exactly(
        fell_behind={"type": "boolean"}, late=COUNT, waited_for_connection=COUNT, delay_ms=TIMES
    ),
    cost=nullable(exactly(estimated_usd=NUMBER, at_most_usd=NUMBER, budget_usd=NUMBER, basis=TEXT)),
    forecast=nullable(
        exactly(
            usd=NUMBER,
            billed_ms=NUMBER,
            cold_starts=nullable(COUNT),
            month=exactly(
                requests=NUMBER,
                usd=NUMBER,
                cold_start_share=nullable(exactly(lowest=NUMBER, highest=NUMBER, method=TEXT)),
            ),
        )
    ),
    parts={
        "type": "array",
        "items": exactly(
            begin=NUMBER,
            seconds=NUMBER,
            due=COUNT,
            answered=COUNT,
            throttled=COUNT,
            errors=COUNT,
            cold_starts=COUNT,
            p50_ms=nullable(NUMBER),
            p99_ms=nullable(NUMBER),
        ),
    },
)


def test_a_test_prints_target_and_cost_first_and_reports(load, served):
    """The report is the table, JSON, and a picture."""
    served.answers.cold = {0}
    ran = load("--rate", "50")
    assert ran.status == 0
    lines = ran.err.splitlines()
    assert lines[0] == f"target: {served.url}/ (sentence-transformers/all-MiniLM-L6-v2)"
    assert lines[1].startswith("plan: ")
    assert lines[2].startswith("estimated cost: $")
    jsonschema.validate(ran.report, SCHEMA)
    sent = len(served.answers.received)
    assert ran.report["requests"]["ok"] == ran.report["requests"]["sent"] == sent > 0
    assert ran.report["cold_starts"]["requests"] == 1
    assert ran.report["plan"]["tokens"] == [8, 256]
    assert f"requests sent{sent:>31,}" in ran.out
    assert "A month at this rate, by the cost command: 131M requests" in ran.out
    ET.fromstring(ran.picture)


def test_json_is_printed_instead_of_the_table(load):
    """The same as in the file."""
    ran = load("--rate", "30", "--json")
    assert ran.out.startswith("{")
    jsonschema.validate(ran.report, SCHEMA)


def test_cost_and_cold_starts_stand_beside_their_forecast(load, served):
    """The estimate of the same requests, by the tokens that were counted."""
    ran = load("--rate", "40", "--tokens", "64")
    forecast, cost = ran.report["forecast"], ran.report["cost"]
    assert ran.report["tokens"]["asked"] == ran.report["tokens"]["counted"]
    # Without the cold starts of the forecast, both are the same requests of 64 tokens.
    cold = forecast["cold_starts"]
    assert cold >= 1
    assert cost["estimated_usd"] < forecast["usd"]
    assert cost["estimated_usd"] <= cost["at_most_usd"] <= cost["budget_usd"] == 1
    assert forecast["month"]["requests"] == 40 * 730 * 3600


def test_throttled_requests_are_a_finding_and_no_error(load, served):
    """The exit status is 0, and they are in the report."""

    def throttle(number, event):
        return answered(429, {"Reason": "x"}) if number % 2 else vectors(number, event)

    served.answers.answer = throttle
    ran = load("--rate", "50")
    assert ran.status == 0
    assert ran.report["requests"]["throttled"] == ran.report["statuses"]["429"] > 0
    assert "throttled (429)" in ran.out


def test_failed_requests_are_an_exit_status(load, served):
    """3, and the report is written."""
    served.answers.answer = lambda *_: answered(500, {"error": "secret inside"})
    ran = load("--rate", "30")
    assert ran.status == 3
    assert ran.report["requests"]["failed"] > 0
    assert ran.report["latency_ms"] is None
    assert "No request was answered" in ran.picture
    assert "secret inside" not in ran.out + ran.err


def test_an_error_of_this_process_ends_the_test_with_a_report(load, served, monkeypatch):
    """The report has what was sent before, and the exit status is 1."""
    signed = Target.headers

    def expire(self, body):
        if served.answers.received:
            raise CredentialsError("expired")
        return signed(self, body)

    monkeypatch.setattr(Target, "headers", expire)
    ran = load("--rate", "30")
    assert ran.status == 1
    assert ran.err.endswith("error: expired\n")
    assert ran.report["requests"]["ok"] >= 1


def test_an_endpoint_that_refuses_the_caller_ends_the_test_before_it_begins(
    load, served, monkeypatch
):
    """With one request instead of thousands."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "other")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    ran = load()
    assert (ran.status, ran.report, served.answers.received) == (1, None, [])
    assert "The security token included in the request is invalid." in ran.err


def test_an_unsigned_test_is_refused_by_a_function_url(load):
    """With AWS's status, before the test begins."""
    ran = load("--no-sign")
    assert ran.status == 1
    assert "status 403" in ran.err


def test_a_key_is_read_from_the_environment(load, monkeypatch):
    """It is never on the command line, which other users of a machine can read."""
    ran = load("--api-key-env", "LOAD_TEST_KEY")
    assert ran.status == 1
    assert ran.err == ("error: No API key: --api-key-env names LOAD_TEST_KEY, which is not set.\n")


def test_texts_over_the_models_limit_are_refused_before_the_test(load, served):
    """With the limit."""
    ran = load("--tokens", "8..400")
    assert ran.status == 1
    assert "--tokens asks for texts of 400 tokens;" in ran.err
    assert "takes up to 256." in ran.err
    assert served.answers.received == []


def test_a_test_of_more_than_a_dollar_needs_a_yes(load, served, monkeypatch):
    """It does not begin without one, and the budget is below the dollar by default."""
    monkeypatch.setattr("sys.stdin", io.StringIO())
    ran = load("--rate", "5000", "--minutes", "600", "--requests", "1M", "--budget-usd", "5")
    assert ran.status == 1
    assert "The test may cost more than $1.00; confirm it with --yes." in ran.err
    assert served.answers.received == []


class Typed(io.StringIO):
    """A terminal on which something is typed."""

    def isatty(self):
        """Return True."""
        return True


@pytest.mark.parametrize(("answer", "status"), [("n\n", 130), ("\n", 130), ("y\n", 0)])
def test_on_a_terminal_it_asks(load, served, monkeypatch, answer, status):
    """Everything but a yes means no."""
    monkeypatch.setattr("sys.stdin", Typed(answer))
    monkeypatch.setattr("embedding_load.run._ASKED_USD", 1e-6)
    ran = load("--rate", "20")
    assert ran.status == status
    assert "Start? [y/N]" in ran.err
    assert bool(served.answers.received) == (status == 0)


def test_a_report_that_cannot_be_written_ends_the_test_before_it_begins(load, served, tmp_path):
    """The money would be lost."""
    (tmp_path / "file").write_text("")
    ran = load("--report", str(tmp_path / "file" / "report"))
    assert ran.status == 1
    assert "cannot be created" in ran.err
    assert served.answers.received == []


def test_an_environments_file_gives_memory_and_region(load, tmp_path, monkeypatch):
    """And the strategy against cold starts. The signature is for the region of the URL."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "small.toml").write_text(
        'region = "eu-central-1"\n[model]\nname = "sentence-transformers/all-MiniLM-L6-v2"\n'
        "[function]\nmemory_mb = 1024\n"
    )
    ran = load("--environment", "small", "--rate", "30")
    assert ran.report["cost"]["basis"].startswith("1,024 MB in eu-central-1; times: ")
    missing = load("--environment", "other")
    assert missing.status == 1
    assert "there is no environment 'other'" in missing.err
    assert "allowed: small" in missing.err


def test_a_model_without_measured_times_needs_milliseconds(load, monkeypatch):
    """Its cost is unknown otherwise, and with it the budget."""
    monkeypatch.setattr("embedding_load.assumptions.catalog_speed", _unknown)
    ran = load()
    assert ran.status == 1
    assert "Give --milliseconds, the time of one request on one core." in ran.err
    assert load("--milliseconds", "20", "--rate", "20").status == 0


def _unknown(*_, **__):
    from embedding_costs.errors import CostError

    raise CostError("no times")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", "0"], "found: 0; allowed: 0.001 to 10,000"),
        (["--minutes", "nan"], "found: nan; allowed: 0.01 to 1,440"),
        (["--tokens", "9..8"], "found: 9..8; allowed: a number or a range such as 8..400"),
        (["--requests", "1.5"], "found: 1.5; allowed: a whole number from 1 to 10,000,000"),
        (["--budget-usd", "-1"], "found: -1; allowed: 0.0001 to 10,000"),
    ],
)
def test_invalid_arguments_are_refused_with_what_is_allowed(arguments, message, capsys):
    """With status 2."""
    with pytest.raises(SystemExit, match="2"):
        parse(["--url", "http://127.0.0.1:9", *arguments])
    assert message in capsys.readouterr().err


def test_a_url_is_needed(monkeypatch, capsys):
    """From the argument or the environment."""
    monkeypatch.delenv("EMBED_URL", raising=False)
    with pytest.raises(SystemExit, match="2"):
        parse([])
    assert "there is no endpoint: give --url, or set EMBED_URL" in capsys.readouterr().err


def test_ctrl_c_ends_the_test_with_a_report_and_the_same_command_works_again(
    load, served, tmp_path
):
    """The exit status is 130, and the next run replaces the report."""
    program = "import sys; from embedding_client.cli import main; main()"
    options = ["--url", served.url, "--report", str(tmp_path / "report"), "--rate", "30"]
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
    report = tmp_path / "report" / "report.json"
    assert '"end": "interrupted"' in report.read_text()
    again = load("--rate", "30")
    assert (again.status, again.report["end"]) == (0, "time")


def test_the_client_says_which_extra_is_missing(monkeypatch, capsys):
    """`embed` itself installs neither the generator's libraries nor the cost model's."""
    monkeypatch.setattr(load_command, "_NEEDED", ("embedding_load", "no_such_library"))
    assert cli.run(["load", "--rate", "5"]) == 1
    assert capsys.readouterr().err == (
        "error: embed load needs: pip install 'embedding-client[load]'; "
        "not found: no_such_library.\n"
    )
