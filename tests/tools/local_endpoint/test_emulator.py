"""An emulator that exits is restarted, unless it exits repeatedly."""

import concurrent.futures
import dataclasses
import json
import os
import signal
from pathlib import Path

import pytest

from tools.local_endpoint import runtime as runtime_module
from tools.local_endpoint.emulator import emulator_binary
from tools.local_endpoint.runtime import EmulatedRuntime, FunctionError

ENVIRONMENT = json.dumps({"rawPath": "/environment"}).encode()
BARE = json.dumps({"rawPath": "/bare"}).encode()


@pytest.fixture
def runtime(echo):
    """Start a separate runtime, because these tests break it."""
    made = EmulatedRuntime(echo, binary=emulator_binary())
    yield made
    made.close()


def function_of(runtime: EmulatedRuntime) -> int:
    """Return the process ID of the function."""
    return int(json.loads(json.loads(runtime.invoke(ENVIRONMENT))["body"])["pid"])


def emulator_of(function: int) -> int:
    """Return the process ID of the emulator, the parent of the function."""
    state = Path(f"/proc/{function}/stat").read_text()
    return int(state.rpartition(")")[2].split()[1])


def responds(runtime: EmulatedRuntime) -> bool:
    try:
        return bool(json.loads(runtime.invoke(BARE)) == [1, 2, 3])
    except FunctionError:
        return False


def test_a_killed_emulator_is_restarted(runtime, capsys):
    """At most one request fails. Another process handles the next one."""
    killed = function_of(runtime)
    os.kill(emulator_of(killed), signal.SIGKILL)
    responds(runtime)
    assert responds(runtime)
    assert function_of(runtime) != killed
    assert "exited (signal SIGKILL); starting it again" in capsys.readouterr().err


def test_requests_during_a_restart_succeed_or_fail(runtime):
    """Of many concurrent requests, at most one fails."""
    os.kill(emulator_of(function_of(runtime)), signal.SIGKILL)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: responds(runtime), range(32)))
    assert results.count(False) <= 1


def test_an_emulator_that_exits_repeatedly_is_not_restarted(runtime):
    """Each request then fails at once, and `wait` raises the reason."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(runtime.wait)
        while not waiting.done():
            try:
                os.kill(emulator_of(function_of(runtime)), signal.SIGKILL)
            except (FunctionError, FileNotFoundError):
                continue
        with pytest.raises(FunctionError, match=r"exited 5 times within .* signal SIGKILL"):
            waiting.result()
    with pytest.raises(FunctionError, match="is not started again"):
        runtime.invoke(BARE)


def test_only_exits_within_a_minute_count(runtime, monkeypatch):
    """An emulator that exits less often is always restarted."""
    monkeypatch.setattr(runtime_module, "_EXITS_SECONDS", 0)
    for _ in range(6):
        os.kill(emulator_of(function_of(runtime)), signal.SIGKILL)
        responds(runtime)
        assert responds(runtime)


@pytest.mark.slow
def test_an_emulator_that_hangs_is_replaced(echo, monkeypatch):
    """The request times out, and the next one succeeds."""
    monkeypatch.setattr("tools.local_endpoint.emulator._GRACE_SECONDS", 10)
    runtime = EmulatedRuntime(dataclasses.replace(echo, timeout=5), binary=emulator_binary())
    try:
        os.kill(emulator_of(function_of(runtime)), signal.SIGSTOP)
        with pytest.raises(FunctionError, match="timed out"):
            runtime.invoke(BARE)
        # A busy machine may need more than the five seconds to start the function.
        assert any(responds(runtime) for _ in range(20))
    finally:
        runtime.close()
