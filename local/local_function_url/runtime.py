"""Where the handler runs: in AWS's own runtime, or, where that has no binary, in this process.

AWS's runtime is the Runtime Interface Emulator (a program inside the aws-sam-cli wheel) with
awslambdaric behind it, as in a Lambda container. One environment serves one request at a time, as
Lambda's do; here others wait their turn instead of starting another environment.
"""

import collections
import contextlib
import http.client
import importlib
import importlib.util
import json
import os
import platform
import socket
import subprocess
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

__all__ = [
    "EmulatedRuntime",
    "Function",
    "FunctionError",
    "InProcessRuntime",
    "Runtime",
    "emulator",
    "start",
]

_INVOKE_PATH = "/2015-03-31/functions/function/invocations"
_BINARIES = {
    ("Linux", "x86_64"): "aws-lambda-rie-x86_64",
    ("Linux", "aarch64"): "aws-lambda-rie-arm64",
}
# Lines of the emulator about itself; of its report, all but the init line is made up.
_EMULATOR_LINES = ("START RequestId:", "END RequestId:", "REPORT RequestId:")


class FunctionError(Exception):
    """The function raised, timed out, ended or returned too much: its caller gets a 502."""


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function to run.

    Attributes:
        handler: module and name, e.g. `embedder.handler.handler`.
        source_root: the folder to import it from.
        environment: the function's environment variables.
        memory: megabytes, told to the function and not enforced.
        timeout: seconds for one request.
    """

    handler: str
    source_root: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    memory: int = 1769
    timeout: int = 60

    def variables(self) -> dict[str, str]:
        """Returns the environment variables that Lambda sets, and the function's own."""
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
    """Something that answers an event."""

    description: str

    def invoke(self, event: bytes) -> bytes:
        """Returns the function's JSON answer to a JSON event.

        Raises:
            FunctionError: the function gave none.
        """

    def close(self) -> None:
        """Ends the function's process."""


def emulator() -> Path | None:
    """Returns the emulator's binary for this machine; None where there is none (macOS, Windows)."""
    name = _BINARIES.get((platform.system(), platform.machine()))
    package = importlib.util.find_spec("samcli")
    if name is None or package is None or not package.submodule_search_locations:
        return None
    binary = Path(next(iter(package.submodule_search_locations)), "local", "rapid", name)
    return binary if binary.is_file() else None


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

    It runs in a process of its own that ends with the thread that made this object, however that
    ends: make it in the main thread.
    """

    description = "AWS's Runtime Interface Emulator"

    def __init__(self, function: Function, *, binary: Path, logs: IO[str] | None = None) -> None:
        self._lock = threading.Lock()  # the emulator crashes on two requests at once
        self._tail: collections.deque[str] = collections.deque(maxlen=40)
        self._timeout = function.timeout
        invoke_port, runtime_port = _free_ports(2)
        self._process = subprocess.Popen(  # noqa: S603  (a program of our own environment)
            [
                *(sys.executable, "-m", "local_function_url.tether", str(os.getpid())),
                *(str(binary), "--log-level", "error"),
                *("--runtime-interface-emulator-address", f"127.0.0.1:{invoke_port}"),
                # By default 127.0.0.1:9001, where only one emulator fits.
                *("--runtime-api-address", f"127.0.0.1:{runtime_port}"),
                *(sys.executable, "-m", "awslambdaric", function.handler),
            ],
            env=_child_environment(function),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C is for the server, which then ends this process itself
        )
        self._reader = threading.Thread(target=self._read_logs, args=(logs,), daemon=True)
        self._reader.start()
        self._connection = http.client.HTTPConnection(
            "127.0.0.1", invoke_port, timeout=function.timeout + 30
        )
        self._await_port(invoke_port)

    def invoke(self, event: bytes) -> bytes:
        """Passes the event through the emulator; one at a time, others wait."""
        with self._lock:
            try:
                status, result = self._post(event)
            except (http.client.HTTPException, OSError) as error:
                self._connection.close()
                raise FunctionError(f"the runtime gave no answer: {error!r}") from error
        if status != http.client.OK or _is_fault(result):
            raise FunctionError(result[:2000].decode(errors="replace"))
        return result

    def close(self) -> None:
        """Ends the emulator, and with it the function."""
        self._connection.close()
        self._process.terminate()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=5)
        if self._process.stdout:
            self._process.stdout.close()

    def _post(self, event: bytes) -> tuple[int, bytes]:
        if self._connection.sock is None:
            self._connection.connect()
            # Headers and body go out in two writes; without this, the second waits for an ack.
            self._connection.sock.setsockopt(  # type: ignore[attr-defined]  # connected just now
                socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
            )
        self._connection.request("POST", _INVOKE_PATH, event, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        return response.status, response.read()

    def _await_port(self, port: int) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._process.poll() is None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), timeout=1),
            ):
                return
            time.sleep(0.005)
        self.close()
        raise FunctionError("the Runtime Interface Emulator did not start:\n" + "".join(self._tail))

    def _read_logs(self, logs: IO[str] | None) -> None:
        assert self._process.stdout is not None  # noqa: S101  (it is a pipe)
        for line in self._process.stdout:
            if line.startswith(_EMULATOR_LINES):
                continue
            self._tail.append(line)
            if logs is not None:
                logs.write(line)
                logs.flush()


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


def _child_environment(function: Function) -> dict[str, str]:
    # Only what Lambda would give it, and the way to Python's own files: a variable of this shell
    # that the function read by accident would not be there once deployed.
    inherited = {
        name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ
    }
    roots = [str(function.source_root), str(Path(__file__).parents[1])]
    return {**inherited, "PYTHONPATH": os.pathsep.join(roots), **function.variables()}


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _is_fault(result: bytes) -> bool:
    """Tells a fault from an answer: the emulator gives both as 200."""
    if not result.startswith(b'{"error') and result[:1] in b"{[":
        return False
    try:
        value = json.loads(result)
    except ValueError:
        return True  # "Task timed out after 60.00 seconds"
    return isinstance(value, dict) and {"errorMessage", "errorType"} <= value.keys()
