"""A process of AWS's Runtime Interface Emulator, which runs awslambdaric and the function."""

import collections
import contextlib
import http.client
import importlib.util
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

from tools.local_endpoint.function import Function, FunctionError

__all__ = ["Emulator", "emulator_binary"]

_INVOKE_PATH = "/2015-03-31/functions/function/invocations"
_BINARIES = {
    ("Linux", "x86_64"): "aws-lambda-rie-x86_64",
    ("Linux", "aarch64"): "aws-lambda-rie-arm64",
}
# The emulator's own log lines. The numbers of its report are not measured, except in the init line.
_EMULATOR_LINES = ("START RequestId:", "END RequestId:", "REPORT RequestId:")
# The maximum time until the emulator listens. If it exits, the error is raised at once.
_START_SECONDS = 120
# The emulator responds when the function times out. This is for an emulator that hangs.
_GRACE_SECONDS = 30


def emulator_binary() -> Path | None:
    """Return the emulator's binary for this machine, or None without one (macOS, Windows)."""
    name = _BINARIES.get((platform.system(), platform.machine()))
    package = importlib.util.find_spec("samcli")
    if name is None or package is None or not package.submodule_search_locations:
        return None
    binary = Path(next(iter(package.submodule_search_locations)), "local", "rapid", name)
    return binary if binary.is_file() else None


class Emulator:
    """A running emulator. It accepts one event at a time, and crashes on concurrent ones.

    It exits when the thread that created this object ends, in any way.

    Args:
        function: The function to run.
        binary: The emulator's program.
        logs: Receives the function's log lines.

    Raises:
        FunctionError: If it did not start. The message has its output.
    """

    def __init__(self, function: Function, *, binary: Path, logs: IO[str] | None = None) -> None:
        self._tail: collections.deque[str] = collections.deque(maxlen=40)
        self._timeout = function.timeout + _GRACE_SECONDS
        self._port, runtime_port = _free_ports(2)
        self._process = subprocess.Popen(  # noqa: S603  (a program of this environment)
            [
                *(sys.executable, "-m", "tools.local_endpoint.parent_watchdog", str(os.getpid())),
                *(str(binary), "--log-level", "error"),
                *("--runtime-interface-emulator-address", f"127.0.0.1:{self._port}"),
                # The default port, 9001, allows only one emulator.
                *("--runtime-api-address", f"127.0.0.1:{runtime_port}"),
                # Without `site`, another Python has no packages of its own.
                *([function.python, "-S"] if function.python else [sys.executable]),
                *("-m", "awslambdaric", function.handler),
            ],
            env=_child_environment(function),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C goes to the server, which stops this process
        )
        self._reader = threading.Thread(target=self._read_logs, args=(logs,), daemon=True)
        self._reader.start()
        self._await_port()

    def invoke(self, event: bytes) -> tuple[int, bytes]:
        """Send an event. Return the status and the body of the emulator's response.

        Raises:
            ConnectionRefusedError: If the emulator has exited. The event was not sent.
            http.client.HTTPException, OSError: If it did not respond. The event may have been sent.
        """
        # One connection per event. If it is refused, the event was not sent.
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._timeout)
        with contextlib.closing(connection):
            connection.connect()
            # Headers and body are two writes. Without this option, the second waits for an ACK.
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.request("POST", _INVOKE_PATH, event, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()

    def wait(self) -> str:
        """Wait until the emulator exits. Return its status and the end of its output."""
        status = self._process.wait()
        self._reader.join(timeout=5)
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return f"{how}\n{''.join(self._tail)}".rstrip()

    def stop(self) -> None:
        """Ask the emulator and the function to exit."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill the emulator. The function exits when it loses the connection to it."""
        self._process.kill()

    def close(self) -> None:
        """Stop the emulator if it is running."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=5)

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

    def _read_logs(self, logs: IO[str] | None) -> None:
        assert self._process.stdout is not None  # noqa: S101  (it is a pipe)
        # The function may outlive its emulator for a while, and until then the pipe stays open.
        with self._process.stdout as lines:
            for line in lines:
                if line.startswith(_EMULATOR_LINES):
                    continue
                self._tail.append(line)
                if logs is not None:
                    logs.write(line)
                    logs.flush()


def _child_environment(function: Function) -> dict[str, str]:
    # Lambda's variables, and those that Python needs. The function must not read a variable of this
    # shell that is missing once it is deployed.
    inherited = {
        name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ
    }
    roots = [str(function.source_root), str(function.runtime_root or Path(__file__).parents[1])]
    return {**inherited, "PYTHONPATH": os.pathsep.join(roots), **function.variables()}


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for bound in sockets:
            bound.bind(("127.0.0.1", 0))
        return [int(bound.getsockname()[1]) for bound in sockets]
