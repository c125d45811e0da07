"""Runs the handler in AWS's runtime, or in this process on machines without a binary of it.

AWS's runtime is the Runtime Interface Emulator (a program in the aws-sam-cli wheel) with
awslambdaric, as in a Lambda container. As on Lambda, an execution environment serves one request at
a time. Here, concurrent requests wait instead of starting another environment.
"""

import collections
import functools
import http.client
import importlib
import json
import os
import platform
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO, NoReturn

from tools.local_endpoint.emulator import Emulator, emulator_binary
from tools.local_endpoint.function import Function, FunctionError, Runtime

__all__ = [
    "EmulatedRuntime",
    "Function",
    "FunctionError",
    "InProcessRuntime",
    "Runtime",
    "emulator_binary",
    "start",
]

# An emulator that exits this often within this time is not started again.
_EXITS = 5
_EXITS_SECONDS = 60


def start(function: Function, *, logs: IO[str] | None = None) -> Runtime:
    """Start the function in AWS's runtime, or in this process without a binary of it.

    Args:
        function: The function to run.
        logs: Receives the function's log lines. By default they are dropped.
    """
    binary = emulator_binary()
    return (
        EmulatedRuntime(function, binary=binary, logs=logs)
        if binary
        else InProcessRuntime(function)
    )


class EmulatedRuntime:
    """Runs a function in AWS's Runtime Interface Emulator.

    If the emulator exits, it is started again, and requests wait for it. If it exits repeatedly, it
    is not restarted: each request fails, and `wait` raises the reason.
    """

    description = "AWS's Runtime Interface Emulator"

    def __init__(self, function: Function, *, binary: Path, logs: IO[str] | None = None) -> None:
        self._start = functools.partial(Emulator, function, binary=binary, logs=logs)
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._emulator: Emulator | None = None
        self._failure: str | None = None
        self._closing = False
        # The emulator exits when the thread that started it ends, so the thread must keep running.
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()
        self._running()

    def invoke(self, event: bytes) -> bytes:
        """Send the event to the emulator. Concurrent events wait."""
        with self._turn:
            status, result = self._passed(event)
        if status != http.client.OK or _is_error(result):
            raise FunctionError(result[:2000].decode(errors="replace"))
        return result

    def wait(self) -> NoReturn:
        """Wait until the emulator is not restarted anymore, and raise the reason."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None)
            raise FunctionError(str(self._failure))

    def close(self) -> None:
        """Stop the emulator and the function."""
        with self._changed:
            self._closing = True
            self._failure = self._failure or "the runtime was closed"
            self._changed.notify_all()
            if self._emulator:
                self._emulator.stop()
        self._keeper.join(timeout=5)
        with self._changed:
            if self._emulator:
                self._emulator.kill()
        self._keeper.join()

    def _passed(self, event: bytes) -> tuple[int, bytes]:
        while True:
            running = self._running()
            try:
                return running.invoke(event)
            except ConnectionRefusedError:
                self._replace(running)  # not sent, so send it to the next emulator
            except (http.client.HTTPException, OSError) as error:
                # The event may have caused the exit, so do not send it again.
                self._replace(running)
                raise FunctionError(f"the runtime did not respond: {error!r}") from error

    def _running(self) -> Emulator:
        """Wait for a running emulator. Return it."""
        with self._changed:
            self._changed.wait_for(lambda: self._emulator or self._failure)
            if self._failure is not None:
                raise FunctionError(self._failure)
            assert self._emulator is not None  # noqa: S101  (checked above)
            return self._emulator

    def _replace(self, broken: Emulator) -> None:
        """Kill an emulator that does not respond. The keeper then starts another."""
        with self._changed:
            if self._emulator is broken:
                self._emulator = None
                broken.kill()

    def _keep(self) -> None:
        exits: collections.deque[float] = collections.deque(maxlen=_EXITS)
        while True:
            try:
                current = self._start()
            except (FunctionError, OSError) as error:
                reason, fatal = str(error), not exits
            else:
                reason, fatal = self._watch(current), False
            exits.append(time.monotonic())
            fatal = fatal or (len(exits) == _EXITS and exits[-1] - exits[0] < _EXITS_SECONDS)
            with self._changed:
                if self._closing:
                    return
                if fatal:
                    self._failure = (
                        reason
                        if len(exits) == 1
                        else f"the Runtime Interface Emulator exited {_EXITS} times within "
                        f"{_EXITS_SECONDS} s and is not started again; the last time: {reason}"
                    )
                    self._changed.notify_all()
                    return
            first = reason.partition("\n")[0]
            sys.stderr.write(
                f"the Runtime Interface Emulator exited ({first}); starting it again\n"
            )

    def _watch(self, current: Emulator) -> str:
        """Use an emulator for requests until it exits. Return the reason."""
        with self._changed:
            self._emulator = current
            self._changed.notify_all()
            if self._closing:
                current.stop()
        try:
            return current.wait()
        finally:
            with self._changed:
                self._emulator = None
            current.close()


class InProcessRuntime:
    """Calls the handler in this process, without the emulator, awslambdaric and the timeout."""

    def __init__(self, function: Function) -> None:
        machine = f"{platform.system()} {platform.machine()}"
        self.description = f"this process (AWS's emulator has no binary for {machine})"
        os.environ.update(function.variables())
        if str(function.source_root) not in sys.path:
            sys.path.insert(0, str(function.source_root))
        module, _, name = function.handler.rpartition(".")
        self._handler: Callable[[object, object], object] = getattr(
            importlib.import_module(module), name
        )
        self._function = function
        self._lock = threading.Lock()

    def invoke(self, event: bytes) -> bytes:
        """Call the handler. Concurrent events wait, as in a Lambda environment."""
        with self._lock:
            try:
                return json.dumps(self._handler(json.loads(event), self._context())).encode()
            except Exception as error:
                raise FunctionError(repr(error)) from error

    def wait(self) -> NoReturn:
        """Wait forever."""
        while True:
            threading.Event().wait()

    def close(self) -> None:
        """Do nothing, because the handler runs in this process."""

    def _context(self) -> types.SimpleNamespace:
        deadline = time.monotonic() + self._function.timeout
        return types.SimpleNamespace(
            aws_request_id=str(uuid.uuid4()),
            function_name="local",
            function_version="$LATEST",
            invoked_function_arn="arn:aws:lambda:us-east-1:123456789012:function:local",
            memory_limit_in_mb=str(self._function.memory),
            log_group_name="/aws/lambda/local",
            log_stream_name="$LATEST",
            get_remaining_time_in_millis=lambda: int((deadline - time.monotonic()) * 1000),
        )


def _is_error(result: bytes) -> bool:
    """Return whether a result is an error. The emulator returns errors with status 200."""
    if not result.startswith(b'{"error') and result[:1] in b"{[":
        return False
    try:
        value = json.loads(result)
    except ValueError:
        return True  # "Task timed out after 60.00 seconds"
    return isinstance(value, dict) and {"errorMessage", "errorType"} <= value.keys()
