"""Which runtime runs the function, and what its answers mean."""

import json

import pytest

from local_function_url.runtime import (
    EmulatedRuntime,
    Function,
    FunctionError,
    InProcessRuntime,
    emulator,
    start,
)

BARE = json.dumps({"rawPath": "/bare"}).encode()


@pytest.mark.parametrize(
    "machine", [("Darwin", "arm64"), ("Windows", "AMD64"), ("Linux", "ppc64le")]
)
def test_where_there_is_no_emulator_the_handler_runs_in_process(monkeypatch, echo, machine):
    """A machine for which AWS has no binary is served all the same, and told why."""
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


def test_without_the_package_there_is_no_emulator(monkeypatch):
    """The emulator comes from a wheel that may be missing."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert emulator() is None


def test_a_handler_that_is_not_there_is_told(echo):
    """The reason comes with the first request, as in Lambda."""
    runtime = EmulatedRuntime(
        Function(handler="nowhere.handler", source_root=echo.source_root), binary=emulator()
    )
    try:
        with pytest.raises(FunctionError, match="Unable to import module 'nowhere'"):
            runtime.invoke(BARE)
    finally:
        runtime.close()


def test_an_emulator_that_does_not_start_is_told(echo, tmp_path):
    """With what it said."""
    broken = tmp_path / "emulator"
    broken.write_text("#!/bin/sh\necho no room on this machine >&2; exit 3\n")
    broken.chmod(0o755)
    with pytest.raises(FunctionError, match="did not start:\nno room on this machine"):
        EmulatedRuntime(echo, binary=broken)


def test_the_functions_log_is_passed_on(echo, tmp_path):
    """Its own lines, and none of the emulator's about itself."""
    log = (tmp_path / "log").open("w+")
    with log:
        runtime = EmulatedRuntime(echo, binary=emulator(), logs=log)
        with pytest.raises(FunctionError):
            runtime.invoke(json.dumps({"rawPath": "/raise"}).encode())
        runtime.close()
        log.seek(0)
        lines = log.read()
    assert "the inside of the function" in lines
    assert "REPORT" not in lines
