"""Batch jobs: `embed batch` against a local server that speaks Step Functions' protocol.

botocore checks each request against AWS's own model before it is sent.
"""

import json
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from embedding_client import _job_commands
from embedding_client._jobs import (
    PRICED,
    PRICES,
    BatchJobs,
    Progress,
    estimated_cost,
    job_progress,
    parse_run,
)
from embedding_client.errors import AwsError, ConfigurationError
from embedding_kit.prices import load_prices
from tests.fixtures.local_server import QuietHandler, serving
from tests.fixtures.waiting import PATIENCE
from tests.jobs.local_s3 import LocalS3, local_s3

MACHINE = "arn:aws:states:eu-central-1:123456789012:stateMachine:docs-batch"
EMBED = [sys.executable, "-m", "embedding_client.cli", "batch"]
#: Ten seconds before the files of `local_s3` were written.
BEGAN = datetime(2026, 11, 22, 9, 59, 50, tzinfo=UTC)
RECORD = "part-000000_rows=490_rejected=10_tokens=98000_ms=20000_mb=1769"
COUNTS = {
    "pending": 2, "running": 1, "succeeded": 6, "failed": 1, "timedOut": 0, "aborted": 0,
    "total": 10, "resultsWritten": 0,
}  # fmt: skip
SETTINGS = {"source": "s3://bucket/docs/", "destination": "s3://bucket/vectors/"}


class StepFunctions:
    """Executions in memory. A map run exists once `counts` has its numbers."""

    def __init__(self) -> None:
        self.executions: dict[str, dict] = {}
        self.counts: dict[str, int] = {}
        #: Why the history of an execution is not shown, if it is not.
        self.refused = ""

    def StartExecution(self, asked: dict) -> dict:  # noqa: N802 - AWS's name
        """Start an execution; its name must be new."""
        arn = f"{MACHINE.replace('stateMachine', 'execution')}:{asked['name']}"
        if arn in self.executions:
            raise KeyError("ExecutionAlreadyExists", f"Execution Already Exists: '{arn}'")
        self.executions[arn] = {
            "executionArn": arn,
            "stateMachineArn": asked["stateMachineArn"],
            "name": asked["name"],
            "status": "RUNNING",
            "startDate": BEGAN.timestamp(),
            "input": asked["input"],
        }
        return {"executionArn": arn, "startDate": time.time()}

    def DescribeExecution(self, asked: dict) -> dict:  # noqa: N802
        """Return an execution."""
        return self._found(asked)

    def StopExecution(self, asked: dict) -> dict:  # noqa: N802
        """Abort an execution."""
        self._found(asked).update(status="ABORTED", stopDate=time.time(), error=asked["error"])
        return {"stopDate": time.time()}

    def ListMapRuns(self, asked: dict) -> dict:  # noqa: N802
        """Return the map run, if it has begun."""
        arn = self._found(asked)["executionArn"]
        run = {"executionArn": arn, "stateMachineArn": MACHINE, "startDate": 0}
        return {"mapRuns": [{**run, "mapRunArn": f"{arn}:run"}] if self.counts else []}

    def DescribeMapRun(self, asked: dict) -> dict:  # noqa: N802
        """Return the numbers of shards, 25 seconds after the first began."""
        return {
            "mapRunArn": asked["mapRunArn"],
            "itemCounts": self.counts,
            "startDate": BEGAN.timestamp(),
            "stopDate": BEGAN.timestamp() + 25,
        }

    def GetExecutionHistory(self, asked: dict) -> dict:  # noqa: N802
        """Return the end of the first step; its output has the job's folder."""
        self._found(asked)
        if self.refused:
            raise KeyError("AccessDeniedException", self.refused)
        exit_ = {"name": "Plan", "output": json.dumps({"folder": "s3://bucket/vectors/job1"})}
        entered = {"timestamp": 0, "type": "TaskStateEntered", "id": 1}
        exited = {"timestamp": 0, "type": "TaskStateExited", "id": 2}
        return {"events": [entered, {**exited, "stateExitedEventDetails": exit_}]}

    def ListExecutions(self, asked: dict) -> dict:  # noqa: N802
        """Return two executions a page, the newest first."""
        found = list(self.executions.values())[::-1]
        start = int(asked.get("nextToken", 0))
        page = {"executions": found[start : start + 2]}
        return page | ({"nextToken": str(start + 2)} if start + 2 < len(found) else {})

    def end(self, name: str, **changes: object) -> None:
        """End an execution."""
        arn = f"{MACHINE.replace('stateMachine', 'execution')}:{name}"
        self.executions[arn].update(stopDate=time.time(), **changes)

    def _found(self, asked: dict) -> dict:
        arn = asked["executionArn"]
        if arn not in self.executions:
            raise KeyError("ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")
        return self.executions[arn]


@pytest.fixture
def states(monkeypatch):
    found = StepFunctions()

    class Handler(QuietHandler):
        def respond(self) -> None:
            asked = json.loads(self.read_body())
            operation = self.headers["X-Amz-Target"].partition(".")[2]
            try:
                status, answer = 200, getattr(found, operation)(asked)
            except KeyError as error:
                status, answer = 400, {"__type": error.args[0], "message": error.args[1]}
            self.answer(status, json.dumps(answer).encode())

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "local")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "local")
    monkeypatch.setenv("EMBEDDING_BATCH", MACHINE)
    with serving(Handler) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SFN", url)
        yield found


@pytest.fixture
def s3(states, monkeypatch) -> Iterator[LocalS3]:
    with local_s3() as served:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", served.url)
        yield served


@pytest.fixture
def embed(states, command):
    return partial(command, "batch")


def test_a_job_is_started_with_its_settings(embed, states):
    """The execution gets the settings that were given, and no others; its name is printed."""
    code, out, _ = embed(
        "start", *SETTINGS.values(), "--text", "body", "--metadata", "a", "--metadata", "b"
    )
    assert code == 0
    name = out.strip()
    assert re.fullmatch(r"docs-\d{8}-\d{6}", name)
    (execution,) = states.executions.values()
    assert execution["name"] == name
    assert json.loads(execution["input"]) == {**SETTINGS, "text": "body", "metadata": ["a", "b"]}


def shard_done(s3, number: int, *, part: bool = True, ms: int = 20_000) -> None:
    """Write the files that a run of a shard leaves."""
    folder = "bucket/vectors/job1"
    name = f"part-{number:06d}"
    record = f"{name}_rows=490_rejected=10_tokens=98000_ms={ms}_mb=1769"
    s3.objects[f"{folder}/_job/progress/{record}"] = b""
    if part:
        s3.objects[f"{folder}/{name}.parquet"] = b"PAR1"


def test_a_running_job_shows_shards_rows_rate_cost_and_time_left(embed, states, s3):
    """Rows and cost are those of the shards that are done, and the rest follows from the time."""
    embed("start", *SETTINGS.values(), "--name", "one")
    code, out, _ = embed("status", "one")
    assert code == 0
    assert out.startswith("one  RUNNING\n  started ")
    states.counts = COUNTS
    for number in range(6):
        shard_done(s3, number)
    _, out, _ = embed("status", "one")
    assert out.splitlines()[1:5] == [
        "  shards     6 of 10 done, 1 failed",
        "  rows       2,940, 117.6 a second",
        "  rejected   60",
        "  cost       about $0.0030, $1.01 per million rows, at list prices of us-east-1, 2026-11",
    ]
    # Six shards took 25 seconds, and four are left.
    assert out.endswith("  time left  about 00:16\n")


def test_a_job_that_continues_counts_what_earlier_executions_did():
    """Their shards are done and their cost was paid, but they have no part in the rate."""
    ended = BEGAN + timedelta(seconds=10)
    until = BEGAN + timedelta(seconds=25)
    first = job_progress(
        ["part-000000"], [parse_run(RECORD, ended)], shards=10, began=BEGAN, until=until
    )
    second = job_progress(
        ["part-000000"], [parse_run(RECORD, ended)], shards=10, began=until, until=until
    )
    assert (first.rows_per_second, first.seconds_left) == (490 / 25, 25 * 9)
    assert second == first._replace(rows_per_second=None, seconds_left=None)


def progress(name: str) -> Progress:
    jobs = BatchJobs(MACHINE)
    return jobs.progress(jobs.status(name))


def test_a_run_without_its_part_costs_and_a_shard_counts_once(s3, states, embed):
    """A worker died before it wrote the part; another shard ran twice."""
    embed("start", *SETTINGS.values(), "--name", "one")
    states.counts = COUNTS
    shard_done(s3, 0)
    once = progress("one")
    shard_done(s3, 0, ms=20_001)
    shard_done(s3, 1, part=False, ms=19_999)
    found = progress("one")
    assert (found.shards, found.rows, found.rejected) == (1, 490, 10)
    assert found.cost == pytest.approx(3 * once.cost)


def test_a_caller_who_may_not_list_the_output_sees_the_shards(embed, states, s3):
    """The numbers of shards come from Step Functions; the reason for the missing rows is shown."""
    embed("start", *SETTINGS.values(), "--name", "one")
    states.counts = COUNTS
    states.refused = "not authorized to perform states:GetExecutionHistory"
    code, out, _ = embed("status", "one")
    assert code == 0
    assert "  shards     6 of 10 done, 1 failed\n" in out
    assert f"  rows       unknown: AWS refused: {states.refused}\n" in out


def test_the_followed_job_is_shown_until_it_ends(embed, states, s3, monkeypatch):
    """Without a terminal, each look is a line; in the end the status is printed."""
    embed("start", *SETTINGS.values(), "--name", "one")
    looks = []

    def pause(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 1:
            states.counts = COUNTS
            shard_done(s3, 0)
        else:
            states.end("one", status="SUCCEEDED", output=json.dumps({"rows": 490, "tokens": 98000}))

    monkeypatch.setattr(time, "sleep", pause)
    code, out, errors = embed("status", "one", "--follow")
    assert code == 0
    assert errors == (
        "one: planning\n"
        "one: 6 of 10 shards, 1 failed, 490 rows, 10 rejected, 20 rows/s, about $0.00, "
        "about 03:45 left\n"
    )
    assert out.startswith("one  SUCCEEDED\n")
    assert "  tokens     98000\n" in out


def test_a_running_job_is_followed_on_a_terminal(states, s3, monkeypatch):
    """A bar is drawn; Ctrl-C ends the bar and not the job."""
    states.counts = COUNTS
    shard_done(s3, 0)
    BatchJobs(MACHINE).start(SETTINGS, name="one")
    master, terminal = os.openpty()
    termios.tcsetwinsize(terminal, (25, 120))
    with subprocess.Popen([*EMBED, "status", "one"], stdout=terminal, stderr=terminal) as running:
        os.close(terminal)
        shown = b""
        while b"of 10 shards" not in shown:
            assert select.select([master], [], [], PATIENCE)[0], shown
            shown += os.read(master, 1000)
        running.send_signal(signal.SIGINT)
        assert running.wait() == 130
        shown += os.read(master, 1000)
    os.close(master)
    assert " 60%|" in shown.decode()
    assert "one goes on; 'embed batch cancel one' stops it" in shown.decode()
    assert BatchJobs(MACHINE).status("one").state == "RUNNING"


def test_the_prices_are_those_of_scripts_cost():
    """The client has no part of the constructs, so that both have the same few prices."""
    listed = load_prices(PRICED.partition(",")[0])
    for name, price in PRICES.items():
        assert price == pytest.approx(listed[name].usd, rel=1e-5), name


def test_the_cost_of_the_worked_example_is_that_of_the_page():
    """The page says the same sum, to within a cent."""
    page = (Path(__file__).parents[2] / "docs" / "batch.md").read_text(encoding="utf-8")
    said = re.search(rf"cost \$([\d.]+) at\s+list\s+prices\s+of\s+{PRICED.partition(',')[0]}", page)
    computed = estimated_cost(runs=2000, seconds=50_000, gb_seconds=50_000 * 1769 / 1024)
    assert computed == pytest.approx(float(said[1]), abs=0.01)


def test_a_finished_job_shows_its_result(embed, states):
    """The result's numbers are printed, and are in the JSON."""
    embed("start", *SETTINGS.values(), "--name", "one")
    states.end("one", status="SUCCEEDED", output=json.dumps({"rows": 5, "rejected": 1}))
    code, out, _ = embed("status", "one", "--follow")
    assert code == 0
    assert "  rows       5\n  rejected   1\n" in out
    _, out, _ = embed("status", "one", "--json")
    status = json.loads(out)
    assert (status["state"], status["result"]) == ("SUCCEEDED", {"rows": 5, "rejected": 1})
    assert status["settings"] == SETTINGS


@pytest.mark.parametrize(
    ("cause", "shown"),
    [
        ('{"errorMessage": "docs/a.txt has no known format.", "errorType": "x"}', "docs/a.txt has"),
        ("States.Timeout", "States.Timeout"),
    ],
)
def test_a_failed_job_shows_why(embed, states, cause, shown):
    """The function's message is shown, and the exit status is 1."""
    embed("start", *SETTINGS.values(), "--name", "one")
    states.end("one", status="FAILED", error="BatchError", cause=cause)
    code, out, _ = embed("status", "one")
    assert code == 1
    assert f"  error      {shown}" in out


def test_a_canceled_job_can_be_resumed(embed, states):
    """A resumed job is a new execution with the same settings; a running one is not resumed."""
    embed("start", *SETTINGS.values(), "--name", "one", "--id", "key")
    assert embed("resume", "one") == (1, "", "error: The job one is still running.\n")
    code, out, _ = embed("cancel", "one")
    assert (code, out) == (0, "one is canceled; 'embed batch resume one' continues it\n")
    code, out, _ = embed("resume", "one")
    assert code == 0
    first, second = states.executions.values()
    assert (second["name"], second["input"]) == (out.strip(), first["input"])


@pytest.mark.parametrize(
    "given", [{}, {"text": "body"}, {"source": None}, {"source": 3}, [], "docs", None]
)
def test_a_job_that_another_program_started_is_any_job(embed, states, given):
    """It is shown, listed, canceled and resumed with its own input."""
    states.StartExecution({"stateMachineArn": MACHINE, "name": "one", "input": json.dumps(given)})
    assert json.loads(embed("status", "one", "--json")[1])["settings"] == given
    assert "  one\n" in embed("list")[1]
    assert [embed(command, "one")[0] for command in ("cancel", "status")] == [0, 1]
    code, out, _ = embed("resume", "one")
    assert (code, out) == (0, f"{list(states.executions.values())[1]['name']}\n")
    assert {each["input"] for each in states.executions.values()} == {json.dumps(given)}


def test_the_newest_jobs_are_listed(embed, states):
    """The list has as many jobs as were asked for, from several pages, the newest first."""
    for number in range(5):
        embed("start", *SETTINGS.values(), "--name", f"job-{number}")
    _, out, _ = embed("list", "-n", "3")
    assert re.findall(r"RUNNING    (\S+)\n", out) == ["job-4", "job-3", "job-2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["start", *SETTINGS.values(), "--name", "a b"], "up to 80 letters, .*; found 'a b'"),
        (["start", "docs", "s3://b/v/"], "both folders are s3://BUCKET/PREFIX/; found docs"),
        (["start", "docs", "v", "--local", "2"], "--local needs --artifact"),
        (["list", "--state-machine", "docs-batch"], "by its ARN, .*; found 'docs-batch'"),
    ],
)
def test_a_mistake_is_one_line(embed, arguments, message):
    """The error has the mistake and the allowed values."""
    code, _, errors = embed(*arguments)
    assert code == 2
    assert re.fullmatch(rf"error: .*{message}.*\n", errors)


def test_a_name_is_used_once(embed):
    """AWS's refusal of a second job with the same name is shown, and of an unknown one."""
    code, _, errors = embed("status", "no")
    assert code == 1
    assert re.match("error: AWS refused: Execution Does Not Exist: '.*:docs-batch:no'", errors)
    embed("start", *SETTINGS.values(), "--name", "one")
    code, _, errors = embed("start", *SETTINGS.values(), "--name", "one")
    assert code == 1
    assert errors.startswith("error: AWS refused: Execution Already Exists: ")


def test_a_state_machine_is_needed(embed, monkeypatch):
    """The error names both ways to give it, and the way without AWS."""
    monkeypatch.delenv("EMBEDDING_BATCH")
    code, _, errors = embed("list")
    assert code == 2
    assert errors == (
        "error: No state machine: give --state-machine, or set EMBEDDING_BATCH to the ARN that "
        "`scripts/deploy` prints as StateMachineArn. For this machine, use --local.\n"
    )


def test_no_credentials_and_no_server_are_different_errors(states, monkeypatch):
    """Missing credentials are a mistake of the configuration; an unreachable AWS is not."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_SFN", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(AwsError, match="AWS cannot be reached: Could not connect"):
        BatchJobs(MACHINE).status("one")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(ConfigurationError, match="Unable to locate credentials"):
        BatchJobs(MACHINE).status("one")
    with pytest.raises(ConfigurationError, match=r"The config profile \(no\) could not be found"):
        BatchJobs(MACHINE, profile="no").status("one")


def test_a_local_job_without_the_kit_names_the_package(embed, monkeypatch):
    """The client alone has no model and no jobs."""
    monkeypatch.setattr(_job_commands, "find_spec", lambda _: None)
    code, _, errors = embed("start", "docs", "v", "--local", "2", "--artifact", "artifact")
    assert code == 2
    assert errors == (
        "error: --local needs embedding-kit, which has the jobs: pip install "
        "'embedding-kit[batch]'.\n"
    )
