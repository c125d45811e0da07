"""`python -m local_function_url`, which scripts/serve runs."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from local_function_url import __main__ as command

SERVE = [sys.executable, "-m", "local_function_url", "--port", "0"]


@pytest.fixture
def served(minilm_artifact):
    """The command, running, and what it printed once it served."""
    with subprocess.Popen(
        [*SERVE, "--model", str(minilm_artifact.folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        said = ""
        while "hello world" not in said.rpartition("embed --url")[2]:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            said += line
        yield process, said
        if process.poll() is None:
            process.kill()


def test_what_it_prints_works(served):
    """The curl command, typed as it is shown, is answered with a vector."""
    process, said = served
    shown = re.search(r"curl --aws-sigv4.*?/\n", said, re.DOTALL)[0]
    ran = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, check=True)
    assert '"vector_space"' in ran.stdout
    process.send_signal(signal.SIGINT)
    assert "stopped" in process.communicate()[1]
    assert process.returncode == 0


def test_it_says_where_the_function_runs(served):
    """In AWS's emulator, on Linux."""
    process, said = served
    assert "Runtime Interface Emulator" in said
    process.terminate()
    assert process.wait() == 0


def test_a_port_in_use_is_told(minilm_artifact, capsys):
    """One line, with the system's reason."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        model = str(minilm_artifact.folder)
        assert command.main(["--model", model, "--port", port]) == 1
    assert (
        f"error: port {port} on 127.0.0.1 cannot be used: Address already"
        in capsys.readouterr().err
    )


def test_a_broken_artifact_is_told(minilm_artifact, tmp_path, capsys):
    """The function's own reason for not starting is shown: it is the caller's own machine."""
    import shutil

    broken = shutil.copytree(minilm_artifact.folder, tmp_path / "broken")
    (broken / minilm_artifact.manifest.graph.file).unlink()
    assert command.main(["--model", str(broken), "--port", "0"]) == 1
    told = capsys.readouterr().err
    assert "error: the function did not start" in told
    assert minilm_artifact.manifest.graph.file in told


def test_another_pair_is_not_printed(monkeypatch):
    """A secret of the environment never reaches the screen."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the secret")
    said = command._ready("http://127.0.0.1:1", model="m", runtime="r")
    assert '--user "AKID:$AWS_SECRET_ACCESS_KEY"' in said
    assert "the secret" not in said


def test_an_emulator_that_ends_again_and_again_ends_the_command(served):
    """The command says why, and its status is 1; until then it goes on serving."""
    process, _ = served
    while process.poll() is None:
        for child in Path(f"/proc/{process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                for emulator in child.read_text().split():
                    os.kill(int(emulator), signal.SIGKILL)
    told = process.communicate()[1]
    assert process.returncode == 1
    assert told.count("starting it again") == 4
    assert "error: the Runtime Interface Emulator ended 5 times within 60 s" in told
