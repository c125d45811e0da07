"""Runs the handler in AWS's runtime, or in this process on machines without a binary of it.

AWS's runtime is the Runtime Interface Emulator (a program in the aws-sam-cli wheel) with
awslambdaric, as in a Lambda container. As on Lambda, an execution environment serves one request at
a time. Here, concurrent requests wait instead of starting another environment.
"""

import collections
import contextlib
import http.client
import importlib.util
import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NoReturn, Protocol

from tools.process import free_ports

_INVOKE_PATH = "/2015-03-31/functions/function/invocations"
_BINARIES = {
    ("Linux", "x86_64"): "aws-lambda-rie-x86_64",
    ("Linux", "aarch64"): "aws-lambda-rie-arm64",
}
# The emulator's own log lines. The numbers of its report are not measured, except in the init line.
_EMULATOR_LINES = ("START RequestId:", "END RequestId:", "REPORT RequestId:")
# The maximum time until the emulator listens. If it exits, the error is raised immediately.
_START_SECONDS = 120
# The emulator responds when the function times out. This is for an emulator that hangs.
_GRACE_SECONDS = 30


class FunctionError(Exception):
    """The function raised an error, timed out, exited or returned too much. The status is 502.

    Its note is the end of the function's log.
    """

    @property
    def reason(self) -> str:
        """The message, without the stack trace of an error that Lambda reports as JSON."""
        text = str(self)
        message, error_type = (
            re.search(rf'"{name}": ?("(?:[^"\\]|\\.)*")', text)  # The JSON may be cut off.
            for name in ("errorMessage", "errorType")
        )
        if message is None or error_type is None or not text.startswith("{"):
            return text
        error_text: str = json.loads(message[1])
        # Errors of the kit are sentences. Another one may be no more than a key.
        return (
            error_text if error_text.endswith(".") else f"{json.loads(error_type[1])}: {error_text}"
        )


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function to run."""

    #: The module and the name, such as `embedder.aws_lambda.handler.handler`.
    handler: str
    #: The folder to import it from.
    source_root: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The setting in MB, which is passed to the function, but not enforced.
    memory: int = 1769
    #: Seconds per request.
    timeout: int = 60

    def variables(self) -> dict[str, str]:
        """Return Lambda's environment variables and those of the function."""
        return {
            "AWS_LAMBDA_FUNCTION_NAME": "local",
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(self.memory),
            "AWS_LAMBDA_FUNCTION_TIMEOUT": str(self.timeout),
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_FORMAT": "JSON",
            "LAMBDA_TASK_ROOT": str(self.source_root),
            "AWS_REGION": os.environ.get("AWS_REGION", "us-east-1"),
            **self.environment,
        }


class Runtime(Protocol):
    """Runs a function. Its methods raise `FunctionError` if it fails or cannot be run anymore."""

    description: str

    def invoke(self, event: bytes) -> bytes:
        """Return the function's JSON result for a JSON event."""

    def wait(self) -> NoReturn:
        """Wait until the function cannot be run anymore."""

    def close(self) -> None:
        """Stop the function's process."""


def emulator_binary(machine: str | None = None) -> Path | None:
    """Return the emulator's binary for a machine of Linux, or for this one; None without one."""
    this_platform = (platform.system(), platform.machine())
    name = _BINARIES.get(("Linux", machine) if machine else this_platform)
    package = importlib.util.find_spec("samcli")
    if name is None or package is None or not package.submodule_search_locations:
        return None
    binary = Path(next(iter(package.submodule_search_locations)), "local", "rapid", name)
    return binary if binary.is_file() else None


def start(function: Function, *, logs: IO[str] | None = None) -> Runtime:
    """Start the function in AWS's runtime, or in this process without a binary of it."""
    if binary := emulator_binary():
        return EmulatedRuntime(function, binary=binary, logs=logs)
    return InProcessRuntime(function)


class EmulatedRuntime:
    """Runs a function in AWS's Runtime Interface Emulator.

    If the emulator exits, each request fails, and `wait` raises the reason. If it hangs, it is
    killed.
    """

    description = "AWS's Runtime Interface Emulator"

    def __init__(self, function: Function, *, binary: Path, logs: IO[str] | None = None) -> None:
        # The emulator crashes on concurrent events.
        self._turn = threading.Lock()
        self._tail: collections.deque[str] = collections.deque(maxlen=40)
        self._timeout = function.timeout + _GRACE_SECONDS
        self._port, runtime_port = free_ports(2)
        command = [
            *(sys.executable, "-m", "tools.local_endpoint.parent_watchdog", str(os.getpid())),
            *(str(binary), "--log-level", "error"),
            *("--runtime-interface-emulator-address", f"127.0.0.1:{self._port}"),
            # The default port, 9001, allows only one emulator.
            *("--runtime-api-address", f"127.0.0.1:{runtime_port}"),
            *(sys.executable, "-m", "awslambdaric", function.handler),
        ]
        started: Future[subprocess.Popen[str]] = Future()
        # The emulator exits when the thread that started it ends, so that thread reads its log.
        self._keeper = threading.Thread(
            target=self._keep, args=(started, command, function, logs), daemon=True
        )
        self._keeper.start()
        self._process = started.result()
        self._await_port()

    def invoke(self, event: bytes) -> bytes:
        """Send the event to the emulator. Concurrent events wait."""
        with self._turn:
            try:
                status, result = self._send(event)
            except (http.client.HTTPException, OSError) as error:
                self._process.kill()
                raise FunctionError(f"the runtime did not respond: {error!r}") from error
        if status != http.client.OK or _is_error(result):
            failed = FunctionError(result[:2000].decode(errors="replace"))
            failed.add_note("".join(self._tail))
            raise failed
        return result

    def wait(self) -> NoReturn:
        """Wait until the emulator exits, and raise its status and the end of its output."""
        status = self._process.wait()
        self._keeper.join(timeout=5)
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        output = "".join(self._tail)
        raise FunctionError(f"the Runtime Interface Emulator exited ({how})\n{output}".rstrip())

    def close(self) -> None:
        """Stop the emulator. The function exits when it loses the connection to it."""
        self._process.terminate()
        self._keeper.join(timeout=5)
        self._process.kill()
        self._process.wait()

    def _send(self, event: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._timeout)
        with contextlib.closing(connection):
            connection.connect()
            # Headers and body are two writes. Without this option, the second waits for an ACK.
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.request("POST", _INVOKE_PATH, event, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()

    def _await_port(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self._port), timeout=1),
            ):
                return
            time.sleep(0.005)
        self.close()
        raise FunctionError("the Runtime Interface Emulator did not start:\n" + "".join(self._tail))

    def _keep(
        self,
        started: "Future[subprocess.Popen[str]]",
        command: list[str],
        function: Function,
        logs: IO[str] | None,
    ) -> None:
        try:
            process = subprocess.Popen(  # noqa: S603  (a program of this environment)
                command,
                env=_child_environment(function),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C goes to the server, which stops this process
            )
        except OSError as error:
            started.set_exception(error)
            return
        started.set_result(process)
        assert process.stdout is not None  # noqa: S101  (it is a pipe)
        with process.stdout as lines:
            for line in lines:
                if line.startswith(_EMULATOR_LINES):
                    continue
                self._tail.append(line)
                if logs is not None:
                    logs.write(line)
                    logs.flush()


class InProcessRuntime:
    """Calls the handler in this process, without the emulator, awslambdaric and the timeout."""

    def __init__(self, function: Function) -> None:
        machine = f"{platform.system()} {platform.machine()}"
        self.description = f"this process (AWS's emulator has no binary for {machine})"
        os.environ.update(function.variables())
        if str(function.source_root) not in sys.path:
            sys.path.insert(0, str(function.source_root))
        module, _, name = function.handler.rpartition(".")
        imported = importlib.import_module(module)
        self._handler: Callable[[object, object], object] = getattr(imported, name)
        self._function = function
        self._lock = threading.Lock()

    def invoke(self, event: bytes) -> bytes:
        """Call the handler. Concurrent events wait, as in a Lambda environment."""
        with self._lock:
            deadline = time.monotonic() + self._function.timeout
            # What the handlers read of Lambda's context.
            context = types.SimpleNamespace(
                get_remaining_time_in_millis=lambda: int((deadline - time.monotonic()) * 1000)
            )
            try:
                return json.dumps(self._handler(json.loads(event), context)).encode()
            except Exception as error:
                raise FunctionError(repr(error)) from error

    def wait(self) -> NoReturn:
        """Wait forever."""
        while True:
            threading.Event().wait()

    def close(self) -> None:
        """Do nothing, because the handler runs in this process."""


def _is_error(result: bytes) -> bool:
    """Return whether a result is an error. The emulator returns errors with status 200."""
    if not result.startswith(b'{"error') and result[:1] in b"{[":
        return False
    try:
        value = json.loads(result)
    except ValueError:
        return True  # "Task timed out after 60.00 seconds"
    return isinstance(value, dict) and {"errorMessage", "errorType"} <= value.keys()


def _child_environment(function: Function) -> dict[str, str]:
    # Lambda's variables, and those that Python needs. The function must not read a variable of this
    # shell that is missing once it is deployed.
    inherited = {
        name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ
    }
    roots = [str(function.source_root), str(Path(__file__).parents[1])]
    return {**inherited, "PYTHONPATH": os.pathsep.join(roots), **function.variables()}
