"""An emulator that ends is replaced; one that ends again and again is given up."""

import concurrent.futures
import dataclasses
import json
import os
import signal
from pathlib import Path

import pytest

from local_function_url import runtime as runtime_module
from local_function_url.emulator import emulator
from local_function_url.runtime import EmulatedRuntime, FunctionError

ENVIRONMENT = json.dumps({"rawPath": "/environment"}).encode()
BARE = json.dumps({"rawPath": "/bare"}).encode()


@pytest.fixture
def runtime(echo):
    """A runtime of its own: these tests break it."""
    made = EmulatedRuntime(echo, binary=emulator())
    yield made
    made.close()


def function_of(runtime: EmulatedRuntime) -> int:
    """The function's process."""
    return int(json.loads(json.loads(runtime.invoke(ENVIRONMENT))["body"])["pid"])


def emulator_of(function: int) -> int:
    """The emulator's process, which started the function's."""
    state = Path(f"/proc/{function}/stat").read_text()
    return int(state.rpartition(")")[2].split()[1])


def answered(runtime: EmulatedRuntime) -> bool:
    try:
        return bool(json.loads(runtime.invoke(BARE)) == [1, 2, 3])
    except FunctionError:
        return False


def test_an_emulator_that_was_killed_is_started_again(runtime, capsys):
    """One request may be lost with it; the next is answered, by another process."""
    killed = function_of(runtime)
    os.kill(emulator_of(killed), signal.SIGKILL)
    answered(runtime)
    assert answered(runtime)
    assert function_of(runtime) != killed
    assert "ended (signal SIGKILL); starting it again" in capsys.readouterr().err


def test_requests_during_a_restart_are_answered_or_fail(runtime):
    """Many at once: each gets the right answer or an error, and at most one is lost."""
    os.kill(emulator_of(function_of(runtime)), signal.SIGKILL)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: answered(runtime), range(32)))
    assert results.count(False) <= 1


def test_an_emulator_that_ends_again_and_again_is_given_up(runtime):
    """Each request then fails at once, and whoever waits hears why."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(runtime.wait)
        while not waiting.done():
            try:
                os.kill(emulator_of(function_of(runtime)), signal.SIGKILL)
            except (FunctionError, FileNotFoundError):
                continue
        with pytest.raises(FunctionError, match=r"ended 5 times within .* signal SIGKILL"):
            waiting.result()
    with pytest.raises(FunctionError, match="is not started again"):
        runtime.invoke(BARE)


def test_ends_long_apart_are_never_too_many(runtime, monkeypatch):
    """Only those within a short time count."""
    monkeypatch.setattr(runtime_module, "_ENDS_SECONDS", 0)
    for _ in range(6):
        os.kill(emulator_of(function_of(runtime)), signal.SIGKILL)
        answered(runtime)
        assert answered(runtime)


def test_an_emulator_that_hangs_is_replaced(echo, monkeypatch):
    """It is ended when its time is over; the next request is answered."""
    monkeypatch.setattr("local_function_url.emulator._GRACE_SECONDS", 10)
    runtime = EmulatedRuntime(dataclasses.replace(echo, timeout=5), binary=emulator())
    try:
        os.kill(emulator_of(function_of(runtime)), signal.SIGSTOP)
        with pytest.raises(FunctionError, match="timed out"):
            runtime.invoke(BARE)
        # A busy machine may need more than the five seconds to start the function.
        assert any(answered(runtime) for _ in range(20))
    finally:
        runtime.close()
