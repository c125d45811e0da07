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

import numpy as np

from tools.local_endpoint.events import to_event
from tools.local_endpoint.signature import SignedRequest
from tools.rehearsal.image.asset import ImageAsset
from tools.rehearsal.image.docker import PLATFORM, Docker, emulated
from tools.rehearsal.report import Report

#: The minimum cosine between two processors: their int8 kernels round differently.
COSINE = {"fp32": 0.9999, "int8": 0.999}
#: Short and long texts, many scripts, and unusual characters.
TEXTS = (
    "hello world",
    "a",
    "A function that parses a date out of a string, given a format. " * 12,
    "Wie spät ist es? 今日は良い天気ですね。 Где находится библиотека? كم الساعة",
    "naïve café 👩‍👩‍👧‍👦 \t\u200b e\u0301 ﬁ ½ \u00a0 zero-width\u200djoiner",
    "SELECT * FROM vectors WHERE cosine(a, b) > 0.5; -- comment <html>&amp;</html>",
)
#: Lambda runs the image as a user who owns no file of it.
_USER = "1051:1051"
_TMP = "/tmp:size=512m,mode=1777"  # noqa: S108  (the container's own)

# Runs inside the container, without a network: the standard library only. It has no timeout,
# because a start on an emulated processor takes minutes: the emulator ends what takes too long.
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
# Runs on this machine, with its own libraries. The handler logs to the standard output, as Lambda
# expects; its answers are kept apart.
_HERE = """
import json, os, sys
sys.path.insert(0, os.environ["LAMBDA_TASK_ROOT"])
from embedder.aws_lambda.handler import handler
answers, sys.stdout = sys.stdout, sys.stderr
for line in sys.stdin:
    print(json.dumps(handler(json.loads(line), None)), file=answers)
"""


@dataclass(frozen=True)
class Container:
    """A running container of the image."""

    docker: Docker
    name: str

    def invoke(self, events: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Send events to the handler in Lambda's emulator one by one, and return its answers."""
        return self.ask(_POST, events)

    def ask(self, program: str, asked: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Run a Python program inside; its input and its output have a JSON value on each line."""
        command = ["exec", "--interactive", self.name, "python", "-c", program]
        try:
            answers = self.docker.run(*command, stdin=_lines(asked))
        except subprocess.CalledProcessError as error:
            raise RuntimeError(
                f"the image does not answer:\n{error}\n{self.logs()[-6000:]}"
            ) from error
        return [json.loads(line) for line in answers.splitlines()]

    def logs(self) -> str:
        """Return the container's standard output and standard error."""
        return self.docker.run("logs", self.name, with_errors=True)


@dataclass(frozen=True, kw_only=True)
class Tested:
    """A built image: its variables when it is deployed, and its files of /var/task in `task`."""

    report: Report
    docker: Docker
    asset: ImageAsset
    variables: Mapping[str, str]
    folder: Path
    task: Path

    @contextmanager
    def running(
        self,
        *,
        variables: Mapping[str, str] | None = None,
        mounts: Mapping[Path, str] | None = None,
        command: Sequence[str] = (),
    ) -> Iterator[Container]:
        """Run the image until the block ends.

        Mounts are files and folders of this machine by their place inside. Without a command, the
        image's own runs in its Runtime Interface Emulator.
        """
        name = f"rehearsal-{uuid.uuid4().hex[:12]}"
        with tempfile.TemporaryDirectory(prefix="empty-") as empty:
            arguments = self._confined(Path(empty), variables or {}, mounts or {})
            if command:
                arguments += ["--entrypoint", command[0]]
            image = [self.asset.tag, *command[1:]]
            self.docker.run("run", "--detach", "--name", name, *arguments, *image)
            try:
                yield Container(self.docker, name)
            finally:
                self.docker.run("rm", "--force", name)

    def python(self, program: str, *, mounts: Mapping[Path, str] | None = None) -> str:
        """Run a program with the image's Python, and return its output."""
        with tempfile.TemporaryDirectory(prefix="empty-") as empty:
            confined = self._confined(Path(empty), {}, mounts or {})
            command = ["run", "--rm", "--entrypoint", "python", *confined, self.asset.tag]
            return self.docker.run(*command, "-c", program)

    def _confined(
        self, empty: Path, variables: Mapping[str, str], mounts: Mapping[Path, str]
    ) -> list[str]:
        arguments = ["--read-only", "--network", "none", "--user", _USER, "--cap-drop", "ALL"]
        arguments += ["--security-opt", "no-new-privileges", "--tmpfs", _TMP]
        arguments += ["--platform", PLATFORM]
        if emulated():
            # QEMU shows this machine's processor there, and ONNX Runtime would read it as ARM's.
            empty.chmod(0o755)
            arguments += ["--volume", f"{empty}:/sys/devices/system/cpu:ro"]
        for name, value in {**self.variables, **variables}.items():
            arguments += ["--env", f"{name}={value}"]
        for source, place in mounts.items():
            arguments += ["--volume", f"{source}:{place}:ro"]
        return arguments


def compare(tested: Tested, vectors: Sequence[Sequence[float]], spaces: set[str]) -> None:
    """Check that vectors of `TEXTS` agree with those of the image's code on this machine."""
    own = tested.folder / "here"
    own.mkdir(exist_ok=True)
    for part in ("artifact", "index", "embedder"):
        if (tested.task / part).exists() and not (own / part).exists():
            (own / part).symlink_to(tested.task / part)
    variables = {**tested.variables, "LAMBDA_TASK_ROOT": str(own), "PATH": "/usr/bin:/bin"}
    command, events = [sys.executable, "-c", _HERE], _lines(embed_events())
    done = subprocess.run(command, input=events, env=variables, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the handler fails on this machine:\n{done.stderr.decode()[-3000:]}")
    own_vectors, own_spaces = embedded([json.loads(line) for line in done.stdout.splitlines()])
    one, other = np.array(vectors), np.array(own_vectors)
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosine = float(np.min(np.einsum("ij,ij->i", one, other) / lengths))
    precision = json.loads((tested.task / "artifact/manifest.json").read_text())["precision"]
    least = COSINE[precision]
    check = f"{precision}: the cosine to this machine's vectors is at least {least}"
    tested.report.check(check, cosine >= least, f"{cosine:.8f}")
    named = spaces | own_spaces
    tested.report.check("both name the same vector space", len(named) == 1, ", ".join(named))


def leaked(log: str, *secrets: str) -> list[str]:
    """Return the texts of `TEXTS`, and others, of which a log has the beginning."""
    return [text for text in (*TEXTS, *secrets) if len(text) > 8 and text[:30] in log]


def embed_events() -> list[dict[str, Any]]:
    """Return an event for the vector of each text."""
    return [event("POST", "/", {"text": text}) for text in TEXTS]


def event(method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the event of a Function URL."""
    headers = {"content-type": "application/json", "host": "rehearsal.lambda-url.us-east-1.on.aws"}
    payload = b"" if body is None else json.dumps(body).encode()
    request = SignedRequest(method=method, target=path, headers=headers, body=payload)
    return dict(json.loads(to_event(request, access_key="AKIAEXAMPLE", source_ip="192.0.2.1")))


def body_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Read the JSON body of an answer to a Function URL event, if the handler did not fail."""
    if "statusCode" not in answer:
        raise ValueError(f"the handler failed: {json.dumps(answer)[:1000]}")
    text = answer.get("body") or "{}"
    body: dict[str, Any] = json.loads(
        base64.b64decode(text) if answer.get("isBase64Encoded") else text
    )
    return body


def embedded(answers: Sequence[Mapping[str, Any]]) -> tuple[list[list[float]], set[str]]:
    """Return the embeddings of answers with status 200, and the names of their spaces."""
    bodies = [body_of(answer) for answer in answers]
    for answer in answers:
        if answer["statusCode"] != 200:
            raise ValueError(f"status {answer['statusCode']}: {str(answer)[:1000]}")
    return [body["embedding"] for body in bodies], {str(body["vector_space"]) for body in bodies}


def _lines(asked: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(item) + "\n" for item in asked).encode()
