"""`python -m tools.local_endpoint`, which scripts/serve runs."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tools.local_endpoint import __main__ as command

SERVE = [sys.executable, "-m", "tools.local_endpoint", "--port", "0"]


@pytest.fixture
def served(minilm_artifact):
    """Run the command. Return the process and its output."""
    with subprocess.Popen(
        [*SERVE, "--model", str(minilm_artifact.folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        output = ""
        while "hello world" not in output.rpartition("embed --url")[2]:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            output += line
        yield process, output
        if process.poll() is None:
            process.kill()


def test_the_printed_curl_command_works(served):
    """It returns a vector."""
    process, output = served
    shown = re.search(r"curl --aws-sigv4.*?/\n", output, re.DOTALL)[0]
    ran = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, check=True)
    assert '"vector_space"' in ran.stdout
    process.send_signal(signal.SIGINT)
    assert "stopped" in process.communicate()[1]
    assert process.returncode == 0


def test_the_output_names_the_runtime(served):
    """On Linux it is AWS's emulator."""
    process, output = served
    assert "Runtime Interface Emulator" in output
    process.terminate()
    assert process.wait() == 0


def test_a_port_in_use_is_an_error(minilm_artifact, capsys):
    """The message has the reason of the operating system."""
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


def test_a_broken_artifact_is_an_error(minilm_artifact, tmp_path, capsys):
    """The message has the function's error, because the caller owns this machine."""
    import shutil

    broken = shutil.copytree(minilm_artifact.folder, tmp_path / "broken")
    (broken / minilm_artifact.manifest.graph.file).unlink()
    assert command.main(["--model", str(broken), "--port", "0"]) == 1
    errors = capsys.readouterr().err
    assert "error: the function did not start" in errors
    assert minilm_artifact.manifest.graph.file in errors


def test_a_secret_is_not_printed(monkeypatch):
    """Only the default secret is printed."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the secret")
    output = command._ready("http://127.0.0.1:1", model="m", runtime="r")
    assert '--user "AKID:$AWS_SECRET_ACCESS_KEY"' in output
    assert "the secret" not in output


def test_an_emulator_that_exits_repeatedly_ends_the_command(served):
    """The emulator is restarted four times. Then the command prints the reason and exits with 1."""
    process, _ = served
    while process.poll() is None:
        for child in Path(f"/proc/{process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                for emulator in child.read_text().split():
                    os.kill(int(emulator), signal.SIGKILL)
    errors = process.communicate()[1]
    assert process.returncode == 1
    assert errors.count("starting it again") == 4
    assert "error: the Runtime Interface Emulator exited 5 times within 60 s" in errors
