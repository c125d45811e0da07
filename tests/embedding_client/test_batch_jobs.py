"""Batch jobs: `embed batch` against a local server that speaks Step Functions' protocol.

botocore checks each request against AWS's own model before it is sent.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from embedding_client.batch_jobs import BatchError, BatchJobs
from embedding_client.cli import run as run_command
from embedding_client.errors import ConfigurationError

MACHINE = "arn:aws:states:eu-central-1:123456789012:stateMachine:docs-batch"
EMBED = [sys.executable, "-m", "embedding_client.cli", "batch"]
SETTINGS = {"source": "s3://bucket/docs/", "destination": "s3://bucket/vectors/"}


class StepFunctions(ThreadingHTTPServer):
    """Executions in memory. A map run exists once `counts` has its numbers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.executions: dict[str, dict] = {}
        self.counts: dict[str, int] = {}

    def StartExecution(self, asked: dict) -> dict:  # noqa: N802 - AWS's name
        """Start an execution, whose name must be new."""
        arn = (
            asked["stateMachineArn"].replace(":stateMachine:", ":execution:") + ":" + asked["name"]
        )
        if arn in self.executions:
            raise KeyError("ExecutionAlreadyExists", f"Execution Already Exists: '{arn}'")
        self.executions[arn] = {
            "executionArn": arn,
            "stateMachineArn": asked["stateMachineArn"],
            "name": asked["name"],
            "status": "RUNNING",
            "startDate": time.time(),
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
        run = {
            "executionArn": arn,
            "mapRunArn": f"{arn}:run",
            "stateMachineArn": MACHINE,
            "startDate": 0,
        }
        return {"mapRuns": [run] if self.counts else []}

    def DescribeMapRun(self, asked: dict) -> dict:  # noqa: N802
        """Return the numbers of shards."""
        return {"mapRunArn": asked["mapRunArn"], "itemCounts": self.counts}

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


class _Handler(BaseHTTPRequestHandler):
    server: StepFunctions

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        operation = self.headers["X-Amz-Target"].partition(".")[2]
        status = 200
        try:
            answer = getattr(self.server, operation)(asked)
        except KeyError as error:
            status, answer = 400, {"__type": error.args[0], "message": error.args[1]}
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def states(monkeypatch):
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    server = StepFunctions()
    monkeypatch.setenv("AWS_ENDPOINT_URL_SFN", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "local")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "local")
    monkeypatch.setenv("EMBED_BATCH", MACHINE)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def embed(states, capsys):
    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(["batch", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_job_is_started_with_its_settings(embed, states) -> None:
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


def test_a_running_job_shows_its_shards(embed, states) -> None:
    """Before the plan there are no shards; then they are counted, with the time that is left."""
    embed("start", *SETTINGS.values(), "--name", "one")
    code, out, _ = embed("status", "one")
    assert code == 0
    assert out.startswith("one  RUNNING\n  started ")
    states.counts = {
        "pending": 2, "running": 1, "succeeded": 6, "failed": 1, "timedOut": 0, "aborted": 0,
        "total": 10, "resultsWritten": 0,
    }  # fmt: skip
    _, out, _ = embed("status", "one")
    assert "  shards     6 of 10 done, 1 failed\n" in out
    assert "  time left  about " in out


def test_a_finished_job_shows_its_result(embed, states) -> None:
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
def test_a_failed_job_shows_why(embed, states, cause: str, shown: str) -> None:
    """The function's message is shown, and the exit status is 1."""
    embed("start", *SETTINGS.values(), "--name", "one")
    states.end("one", status="FAILED", error="BatchError", cause=cause)
    code, out, _ = embed("status", "one")
    assert code == 1
    assert f"  error      {shown}" in out


def test_a_canceled_job_can_be_resumed(embed, states) -> None:
    """A resumed job is a new execution with the same settings; a running one is not resumed."""
    embed("start", *SETTINGS.values(), "--name", "one", "--id", "key")
    assert embed("resume", "one") == (1, "", "error: The job one is still running.\n")
    code, out, _ = embed("cancel", "one")
    assert (code, out) == (0, "one is canceled; 'embed batch resume one' continues it\n")
    code, out, _ = embed("resume", "one")
    assert code == 0
    first, second = states.executions.values()
    assert (second["name"], second["input"]) == (out.strip(), first["input"])


def test_the_newest_jobs_are_listed(embed, states) -> None:
    """The list has as many jobs as were asked for, from several pages, the newest first."""
    for number in range(5):
        embed("start", *SETTINGS.values(), "--name", f"job-{number}")
    _, out, _ = embed("list", "-n", "3")
    assert re.findall(r"RUNNING    (\S+)\n", out) == ["job-4", "job-3", "job-2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["status", "no"], "AWS refused: Execution Does Not Exist: '.*:docs-batch:no'"),
        (["start", *SETTINGS.values(), "--name", "a b"], "up to 80 letters, .*; found 'a b'"),
        (["start", "docs", "s3://b/v/"], "both folders are s3://BUCKET/PREFIX/; found docs"),
        (["start", "docs", "v", "--local", "2"], "--local needs --artifact"),
        (["list", "--state-machine", "docs-batch"], "by its ARN, .*; found 'docs-batch'"),
    ],
)
def test_a_mistake_is_one_line(embed, arguments: list[str], message: str) -> None:
    """The error says what is wrong and what is allowed."""
    code, _, errors = embed(*arguments)
    assert code == 1
    assert re.fullmatch(rf"error: .*{message}.*\n", errors)


def test_a_name_is_used_once(embed) -> None:
    """AWS's refusal of a second job with the same name is shown."""
    embed("start", *SETTINGS.values(), "--name", "one")
    code, _, errors = embed("start", *SETTINGS.values(), "--name", "one")
    assert code == 1
    assert errors.startswith("error: AWS refused: Execution Already Exists: ")


def test_a_state_machine_is_needed(embed, monkeypatch) -> None:
    """The error names both ways to give it, and the way without AWS."""
    monkeypatch.delenv("EMBED_BATCH")
    code, _, errors = embed("list")
    assert code == 1
    assert errors == (
        "error: No state machine: give --state-machine, or set EMBED_BATCH to the ARN that "
        "`scripts/deploy` prints as StateMachineArn. For this machine, use --local.\n"
    )


def test_no_credentials_and_no_server_are_different_errors(states, monkeypatch, tmp_path) -> None:
    """Missing credentials are a mistake of the configuration; an unreachable AWS is not."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_SFN", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(BatchError, match="AWS cannot be reached: Could not connect"):
        BatchJobs(MACHINE).status("one")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ConfigurationError, match="Unable to locate credentials"):
        BatchJobs(MACHINE).status("one")
    with pytest.raises(ConfigurationError, match=r"The config profile \(no\) could not be found"):
        BatchJobs(MACHINE, profile="no").status("one")


def test_a_folder_of_this_machine_is_embedded_in_processes(minilm_artifact, tmp_path) -> None:
    """`--local` runs the same job here and ends with its status."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.jsonl").write_text('{"key": 1, "body": "hello"}\n{broken')
    start = [*EMBED, "start", str(tmp_path / "docs"), str(tmp_path / "vectors"), "--local", "1"]
    start += ["--artifact", str(minilm_artifact.folder), "--text", "body", "--id", "key"]
    done = subprocess.run(start, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "1 of 2 rows were rejected" in done.stderr
    done = subprocess.run(
        [*start, "--max-rejected-percent", "50"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["rows"] == 1


def test_ctrl_c_ends_a_local_job_as_it_ends_others(minilm_artifact, tmp_path) -> None:
    """The job says how it is continued, and its status is 130."""
    (tmp_path / "docs").mkdir()
    text = "word " * 200
    rows = [json.dumps({"text": f"{number} {text}"}) for number in range(150)]
    (tmp_path / "docs" / "a.jsonl").write_text("\n".join(rows))
    start = [*EMBED, "start", str(tmp_path / "docs"), str(tmp_path / "vectors"), "--local", "1"]
    start += ["--artifact", str(minilm_artifact.folder)]
    with subprocess.Popen(start, stderr=subprocess.PIPE, text=True, process_group=0) as running:
        while not list(tmp_path.glob("vectors/*/_job/job.json")):
            assert running.poll() is None
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGINT)
        _, errors = running.communicate()
    assert running.returncode == 130
    assert "stopped; the same command continues the job" in errors
