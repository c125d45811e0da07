"""`python -m tools.local_endpoint`, which scripts/serve runs."""

import errno
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.docs.pages import NEEDS_CURL
from tests.fixtures.waiting import PATIENCE
from tools.bench import __main__ as bench
from tools.local_endpoint import __main__ as command
from tools.local_endpoint.models import artifact_of
from tools.local_endpoint.runtime import FunctionError

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


@NEEDS_CURL
def test_the_printed_curl_command_works(served):
    """It returns a vector; the request is one line, without the function's log."""
    process, output = served
    shown = re.search(r"curl --aws-sigv4.*?/\n", output, re.DOTALL)[0]
    ran = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, check=True)
    assert '"vector_space"' in ran.stdout
    process.send_signal(signal.SIGINT)
    assert re.fullmatch(r"POST / 200, \d+ ms\n\nstopped\n", process.communicate()[1])
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "no space", "weights.bin"), "weights.bin: no space"),
        (OSError("2 files were not copied"), "the files of the model: 2 files were not copied"),
    ],
)
def test_a_full_disk_is_an_error_of_the_disk(monkeypatch, capsys, error, told):
    """The message has the file and the reason, and does not blame the port."""
    monkeypatch.setattr(command, "artifact_of", Mock(side_effect=error))
    assert command.main(["--model", "any", "--port", "0"]) == 1
    assert capsys.readouterr().err == f"error: {told}\n"


@pytest.mark.parametrize("options", [[], ["--server"]])
def test_a_port_in_use_is_an_error(options, monkeypatch, capsys):
    """With the reason of the operating system, before anything is compiled."""
    monkeypatch.setattr(command, "artifact_of", Mock(side_effect=AssertionError))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert command.main([*options, "--port", port]) == 1
    assert (
        f"error: port {port} on 127.0.0.1 cannot be used: Address already in use; choose"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("options", "variables", "named"),
    [
        (["--port", "99999"], {}, "--port (EMBEDDING_SERVER_PORT)"),
        (["--drian", "3"], {}, "--drian"),
        ([], {"EMBEDDING_SERVER_WORKERS": "0"}, "--workers (EMBEDDING_SERVER_WORKERS)"),
        ([], {"EMBEDDING_TRUNCATE": "middle"}, "EMBEDDING_TRUNCATE"),
    ],
)
def test_the_servers_settings_are_checked_first(options, variables, named, monkeypatch, capsys):
    """Before anything is compiled."""
    monkeypatch.setattr(command, "artifact_of", Mock(side_effect=AssertionError))
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert command.main(["--server", *options]) == 1
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    ("main", "option", "value", "allowed"),
    [
        (command.main, "--port", "99999", "0 to 65,535"),
        (command.main, "--port", "-1", "0 to 65,535"),
        (command.main, "--memory", "64", "128 to 10,240"),
        (command.main, "--timeout", "901", "1 to 900"),
        (bench.main, "--rounds", "0", "1 to 1,000"),
        (bench.main, "--rounds", "two", "1 to 1,000"),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(capsys, main, option, value, allowed):
    """Before anything is compiled or started."""
    with pytest.raises(SystemExit):
        main([f"{option}={value}"])
    error = capsys.readouterr().err.splitlines()[-1]
    said = f"argument {option}: found: {value}; allowed: a whole number from {allowed}"
    assert error.endswith(said)


def test_a_broken_artifact_is_an_error(minilm_artifact, tmp_path, capsys):
    """The message has the function's error, because the caller owns this machine."""
    import shutil

    broken = shutil.copytree(minilm_artifact.folder, tmp_path / "broken")
    (broken / minilm_artifact.manifest.graph.file).unlink()
    assert command.main(["--model", str(broken), "--port", "0"]) == 1
    errors = capsys.readouterr().err
    assert "error: the function did not start" in errors
    assert minilm_artifact.manifest.graph.file in errors
    assert "stackTrace" not in errors


@pytest.mark.parametrize(
    ("reported", "reason"),
    [
        (
            '{"errorMessage": "It says \\"no\\".", "errorType": "SettingsError", "stackTrace": ["a',
            'It says "no".',
        ),
        ('{"errorType":"KeyError","errorMessage":"\'a\'","stackTrace":[]}', "KeyError: 'a'"),
        ("Task timed out after 60.00 seconds", "Task timed out after 60.00 seconds"),
    ],
)
def test_the_reason_of_an_error_has_no_stack_trace(reported, reason):
    """Also if the JSON is cut off; another text is the reason itself."""
    assert FunctionError(reported).reason == reason


def test_a_secret_is_not_printed(monkeypatch):
    """Only the default secret is printed."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the secret")
    output = command._ready("http://127.0.0.1:1", model="m", runtime="r")
    assert '--user "AKID:$AWS_SECRET_ACCESS_KEY"' in output
    assert "the secret" not in output


def test_an_emulator_that_exits_ends_the_command(served):
    """The command prints the reason and exits with 1."""
    process, _ = served
    for children in Path(f"/proc/{process.pid}/task").glob("*/children"):
        for emulator in children.read_text().split():
            os.kill(int(emulator), signal.SIGKILL)
    assert "error: the Runtime Interface Emulator exited" in process.communicate()[1]
    assert process.returncode == 1


def test_the_server_listens_on_this_machine_only_and_needs_no_keys():
    """The server's own defaults are those of a container: every address, and keys."""
    assert command.server_command([], {})[1:] == [
        *("-m", "embedder.server"),
        *("--host", "127.0.0.1", "--port", "9000", "--no-keys"),
    ]


@pytest.mark.parametrize(
    ("flags", "environ"),
    [
        (["--port=1", "--host", "::1"], {"EMBEDDING_SERVER_KEYS": "a:b"}),
        (
            [],
            {
                "EMBEDDING_SERVER_HOST": "::1",
                "EMBEDDING_SERVER_PORT": "1",
                "EMBEDDING_SERVER_KEYS": "a:b",
            },
        ),
    ],
)
def test_what_is_given_is_kept(flags, environ):
    """Flags and variables of the server go before the defaults; keys are used if given."""
    assert command.server_command(flags, environ)[3:] == flags


def test_the_server_serves_a_model(minilm_artifact):
    """It answers without a signature, and ends with 0."""
    flags = ["--model", str(minilm_artifact.folder), "--port", "0"]
    program = subprocess.Popen(
        [sys.executable, "-m", "tools.local_endpoint", "--server", *flags],
        env={k: v for k, v in os.environ.items() if not k.startswith("EMBEDDING_")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        ready = re.fullmatch(r"ready at (http://127\.0\.0\.1:\d+)\n", program.stderr.readline())
        request = urllib.request.Request(f"{ready[1]}/embed", b'{"inputs": "hello"}')
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            assert answer.read().startswith(b"[[")
        program.send_signal(signal.SIGTERM)
        assert program.wait(PATIENCE) == 0
    finally:
        program.kill()
        program.communicate()


@pytest.mark.parametrize(
    ("answer", "body", "path", "words"),
    [
        (
            "score",
            '{"query":"a greeting","texts":["hello world"]}',
            "rerank",
            'rerank "a greeting" FILE',
        ),
        ("label", '{"text":"hello world"}', "classify", 'classify "hello world"'),
    ],
)
def test_another_model_is_tried_by_its_own_path(answer, body, path, words):
    """The commands to copy are those of the model that is served."""
    output = command._ready("http://127.0.0.1:1", model="m", runtime="r", answer=answer)
    assert body in output
    assert f"http://127.0.0.1:1/{path}\n" in output
    assert f"embed {words} --url http://127.0.0.1:1\n" in output


def test_a_folder_of_several_artifacts_is_served(tmp_path):
    """A compiled artifact is served without compiling it again."""
    (tmp_path / "artifacts.json").write_text("{}")
    assert artifact_of(str(tmp_path)) == tmp_path.resolve()
