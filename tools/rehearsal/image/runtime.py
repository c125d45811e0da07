"""Run the image as Lambda does: read-only, no network, 512 MB of /tmp, a user who owns no file."""

import base64
import json
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.rehearsal.image.docker import Docker, emulated

__all__ = ["Container", "embed_events", "event", "run_here", "run_inside", "running"]

#: Lambda runs the image as a user who owns no file of it.
_USER = "1051:1051"
_TMP = "/tmp:size=512m,mode=1777"  # noqa: S108  (the container's own)
_PROBE = Path(__file__).with_name("probe.py")

# Runs inside the container, which has no network outside: standard library only.
# On a busy machine with an emulated processor, starting the emulator takes minutes and an answer
# much longer. There is no timeout here: the emulator ends a request that takes too long, and the
# program ends with its container.
_POST = """
import json, sys, time, urllib.request
URL = "http://127.0.0.1:8080/2015-03-31/functions/function/invocations"
for line in sys.stdin:
    for attempt in range(3000):
        try:
            with urllib.request.urlopen(URL, line.encode()) as answer:
                print(json.dumps(json.load(answer)), flush=True)
            break
        except ConnectionRefusedError:
            time.sleep(0.2)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.2)
    else:
        sys.exit("the emulator does not answer")
"""


@dataclass(frozen=True, kw_only=True)
class Container:
    """A running container of the image, with the emulator."""

    docker: Docker
    name: str

    def invoke(self, events: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Send events to the handler one by one, and return its answers."""
        return self.ask(_POST, events)

    def ask(self, program: str, asked: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Run a Python program inside, with a JSON object a line; return what it prints as such.

        Raises:
            RuntimeError: It fails; the error has the container's log.
        """
        lines = "".join(json.dumps(item) + "\n" for item in asked).encode()
        command = ["exec", "--interactive", self.name, "python", "-c", program]
        try:
            answers = self.docker.run(*command, stdin=lines)
        except subprocess.CalledProcessError as error:
            raise RuntimeError(
                f"the image does not answer:\n{error}\n{self.logs()[-6000:]}"
            ) from error
        return [json.loads(line) for line in answers.splitlines()]

    def logs(self) -> str:
        """Return the container's standard output and standard error."""
        done = subprocess.run(
            [self.docker.client, "logs", self.name],
            env={**self.docker.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=True,
        )
        return done.stdout.decode(errors="replace")


@contextmanager
def running(
    docker: Docker,
    image: str,
    *,
    environment: Mapping[str, str],
    mounts: Mapping[Path, str] | None = None,
    command: Sequence[str] = (),
) -> Iterator[Container]:
    """Run the image until the block ends.

    Args:
        docker: The daemon.
        image: The image's name.
        environment: The environment variables.
        mounts: Files and folders of this machine, by their place inside.
        command: The program and its arguments; by default the image's own command, in its Runtime
            Interface Emulator.
    """
    name = f"rehearsal-{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory(prefix="empty-") as empty:
        arguments = _confined(Path(empty), environment, mounts or {})
        if command:
            arguments += ["--entrypoint", command[0]]
        docker.run("run", "--detach", "--name", name, *arguments, image, *command[1:])
        try:
            yield Container(docker=docker, name=name)
        finally:
            docker.run("rm", "--force", name)


def run_inside(
    docker: Docker,
    image: str,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    stdin: bytes = b"",
) -> str:
    """Run the image's Python with other arguments, with the same restrictions as its handler."""
    with tempfile.TemporaryDirectory(prefix="empty-") as empty:
        confined = _confined(Path(empty), environment, {_PROBE: "/probe.py"})
        command = [
            "run",
            "--rm",
            "--interactive",
            "--entrypoint",
            "python",
            *confined,
            image,
            *arguments,
        ]
        return docker.run(*command, stdin=stdin)


def run_here(
    arguments: Sequence[str], *, environment: Mapping[str, str], stdin: bytes = b""
) -> str:
    """Run this project's Python with the same arguments, outside the container."""
    here = [str(_PROBE) if argument == "/probe.py" else argument for argument in arguments]
    command = [sys.executable, *here]
    done = subprocess.run(
        command, input=stdin, env={**environment}, capture_output=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(here)} failed:\n{done.stderr.decode()[-3000:]}")
    return done.stdout.decode()


def _confined(empty: Path, environment: Mapping[str, str], mounts: Mapping[Path, str]) -> list[str]:
    arguments = ["--read-only", "--network", "none", "--user", _USER, "--cap-drop", "ALL"]
    arguments += ["--security-opt", "no-new-privileges", "--tmpfs", _TMP]
    arguments += ["--platform", "linux/arm64"]
    if emulated():
        # QEMU shows this machine's processor there, and ONNX Runtime would read it as an ARM one.
        empty.chmod(0o755)
        arguments += ["--volume", f"{empty}:/sys/devices/system/cpu:ro"]
    for name, value in environment.items():
        arguments += ["--env", f"{name}={value}"]
    for source, place in mounts.items():
        arguments += ["--volume", f"{source}:{place}:ro"]
    return arguments


def embed_events(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return an event for the vector of each text."""
    return [event("POST", "/", json.dumps({"text": text}).encode()) for text in texts]


def event(method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
    """Return the event of a Function URL (payload format 2.0)."""
    identity = uuid.uuid4().hex
    written: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {
            "content-type": "application/json",
            "host": "rehearsal.lambda-url.us-east-1.on.aws",
        },
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "rehearsal",
            "domainName": "rehearsal.lambda-url.us-east-1.on.aws",
            "domainPrefix": "rehearsal",
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.1",
                "userAgent": "rehearsal",
            },
            "requestId": identity,
            "routeKey": "$default",
            "stage": "$default",
            "time": "01/Jan/2026:00:00:00 +0000",
            "timeEpoch": 1767225600000,
        },
        "isBase64Encoded": False,
    }
    if body is not None:
        written["body"] = base64.b64encode(body).decode()
        written["isBase64Encoded"] = True
    return written
