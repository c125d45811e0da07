"""Where the handler runs: in AWS's own runtime, or, where that has no binary, in this process.

AWS's runtime is the Runtime Interface Emulator (a program inside the aws-sam-cli wheel) with
awslambdaric behind it, as in a Lambda container. One environment serves one request at a time, as
Lambda's do; here others wait their turn instead of starting another environment.
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

from local_function_url.emulator import Emulator, emulator
from local_function_url.function import Function, FunctionError, Runtime

__all__ = [
    "EmulatedRuntime",
    "Function",
    "FunctionError",
    "InProcessRuntime",
    "Runtime",
    "emulator",
    "start",
]

# An emulator that ends this often within this time is not started again.
_ENDS = 5
_ENDS_SECONDS = 60


def start(function: Function, *, logs: IO[str] | None = None) -> Runtime:
    """Starts the function in AWS's runtime, or in this process where that cannot run here.

    Args:
        function: what to run.
        logs: where the function's log lines go; nowhere by default.
    """
    binary = emulator()
    return (
        EmulatedRuntime(function, binary=binary, logs=logs)
        if binary
        else InProcessRuntime(function)
    )


class EmulatedRuntime:
    """The function behind AWS's Runtime Interface Emulator.

    An emulator that ends is started again, and requests wait for it. One that ends again and again
    is given up: then each request fails, and `wait` says why.
    """

    description = "AWS's Runtime Interface Emulator"

    def __init__(self, function: Function, *, binary: Path, logs: IO[str] | None = None) -> None:
        self._start = functools.partial(Emulator, function, binary=binary, logs=logs)
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._emulator: Emulator | None = None
        self._failure: str | None = None
        self._closing = False
        # The emulator ends with the thread that started it, so that thread has to last.
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()
        self._running()

    def invoke(self, event: bytes) -> bytes:
        """Passes the event through the emulator; one at a time, others wait."""
        with self._turn:
            status, result = self._passed(event)
        if status != http.client.OK or _is_fault(result):
            raise FunctionError(result[:2000].decode(errors="replace"))
        return result

    def wait(self) -> NoReturn:
        """Waits until the emulator is given up, and raises why."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None)
            raise FunctionError(str(self._failure))

    def close(self) -> None:
        """Ends the emulator, and with it the function."""
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
                self._replace(running)  # nothing was sent: the next one gets the event
            except (http.client.HTTPException, OSError) as error:
                # The event itself may have ended it, so it is not sent again.
                self._replace(running)
                raise FunctionError(f"the runtime gave no answer: {error!r}") from error

    def _running(self) -> Emulator:
        """Waits for an emulator that runs."""
        with self._changed:
            self._changed.wait_for(lambda: self._emulator or self._failure)
            if self._failure is not None:
                raise FunctionError(self._failure)
            assert self._emulator is not None  # noqa: S101  (waited for)
            return self._emulator

    def _replace(self, broken: Emulator) -> None:
        """Ends an emulator that does not answer; the keeper then starts another."""
        with self._changed:
            if self._emulator is broken:
                self._emulator = None
                broken.kill()

    def _keep(self) -> None:
        ends: collections.deque[float] = collections.deque(maxlen=_ENDS)
        while True:
            try:
                current = self._start()
            except (FunctionError, OSError) as error:
                reason, fatal = str(error), not ends
            else:
                reason, fatal = self._watch(current), False
            ends.append(time.monotonic())
            fatal = fatal or (len(ends) == _ENDS and ends[-1] - ends[0] < _ENDS_SECONDS)
            with self._changed:
                if self._closing:
                    return
                if fatal:
                    self._failure = (
                        reason
                        if len(ends) == 1
                        else f"the Runtime Interface Emulator ended {_ENDS} times within "
                        f"{_ENDS_SECONDS} s and is not started again; the last time: {reason}"
                    )
                    self._changed.notify_all()
                    return
            first = reason.partition("\n")[0]
            sys.stderr.write(f"the Runtime Interface Emulator ended ({first}); starting it again\n")

    def _watch(self, current: Emulator) -> str:
        """Lets requests have an emulator until it ends; returns how it ended."""
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
    """The handler, called in this process: no emulator, no awslambdaric, no timeout."""

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
        """Calls the handler; one request at a time, as in a Lambda environment."""
        with self._lock:
            try:
                return json.dumps(self._handler(json.loads(event), self._context())).encode()
            except Exception as error:
                raise FunctionError(repr(error)) from error

    def wait(self) -> NoReturn:
        """Waits for ever: this process ends, or serves."""
        while True:
            threading.Event().wait()

    def close(self) -> None:
        """Does nothing: there is no process to end."""

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


def _is_fault(result: bytes) -> bool:
    """Tells a fault from an answer: the emulator gives both as 200."""
    if not result.startswith(b'{"error') and result[:1] in b"{[":
        return False
    try:
        value = json.loads(result)
    except ValueError:
        return True  # "Task timed out after 60.00 seconds"
    return isinstance(value, dict) and {"errorMessage", "errorType"} <= value.keys()
