"""One process of AWS's Runtime Interface Emulator, with awslambdaric and the function behind it."""

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

from local_function_url.function import Function, FunctionError

__all__ = ["Emulator", "emulator"]

_INVOKE_PATH = "/2015-03-31/functions/function/invocations"
_BINARIES = {
    ("Linux", "x86_64"): "aws-lambda-rie-x86_64",
    ("Linux", "aarch64"): "aws-lambda-rie-arm64",
}
# Lines of the emulator about itself; of its report, all but the init line is made up.
_EMULATOR_LINES = ("START RequestId:", "END RequestId:", "REPORT RequestId:")
# An emulator that ends is noticed at once; one that neither ends nor listens is given this long.
_START_SECONDS = 120
# The emulator itself answers when the function is out of time. This is for one that hangs.
_GRACE_SECONDS = 30


def emulator() -> Path | None:
    """Returns the emulator's binary for this machine; None where there is none (macOS, Windows)."""
    name = _BINARIES.get((platform.system(), platform.machine()))
    package = importlib.util.find_spec("samcli")
    if name is None or package is None or not package.submodule_search_locations:
        return None
    binary = Path(next(iter(package.submodule_search_locations)), "local", "rapid", name)
    return binary if binary.is_file() else None


class Emulator:
    """A running emulator. It takes one event at a time, and crashes on two.

    It ends with the thread that made this object, however that thread ends.

    Args:
        function: what to run.
        binary: the emulator's program.
        logs: where the function's log lines go.

    Raises:
        FunctionError: it did not start; the message has what it printed.
    """

    def __init__(self, function: Function, *, binary: Path, logs: IO[str] | None = None) -> None:
        self._tail: collections.deque[str] = collections.deque(maxlen=40)
        self._timeout = function.timeout + _GRACE_SECONDS
        self._port, runtime_port = _free_ports(2)
        self._process = subprocess.Popen(  # noqa: S603  (a program of our own environment)
            [
                *(sys.executable, "-m", "local_function_url.tether", str(os.getpid())),
                *(str(binary), "--log-level", "error"),
                *("--runtime-interface-emulator-address", f"127.0.0.1:{self._port}"),
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
        self._await_port()

    def invoke(self, event: bytes) -> tuple[int, bytes]:
        """Returns the status and body that the emulator answers to an event.

        Raises:
            ConnectionRefusedError: the emulator has ended; the event was not sent.
            http.client.HTTPException, OSError: it gave no answer; the event may have been sent.
        """
        # A connection for each event, so that a refused one says that the event was not sent.
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._timeout)
        with contextlib.closing(connection):
            connection.connect()
            # Headers and body go out in two writes; without this, the second waits for an ack.
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.request("POST", _INVOKE_PATH, event, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()

    def wait(self) -> str:
        """Waits until the emulator ends, and returns how it did and what it printed last."""
        status = self._process.wait()
        self._reader.join(timeout=5)
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        return f"{how}\n{''.join(self._tail)}".rstrip()

    def stop(self) -> None:
        """Asks the emulator to end, and with it the function."""
        self._process.terminate()

    def kill(self) -> None:
        """Ends the emulator at once; the function ends once it finds its emulator gone."""
        self._process.kill()

    def close(self) -> None:
        """Ends the emulator if it still runs."""
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
