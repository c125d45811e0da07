"""An image of the Dockerfile: built, its files and layers checked, and run as Lambda does.

It runs read-only, without a network, with 512 MB of /tmp, as a user who owns no file. The rules
about files hold for a zip, too: those that a run needs, each readable and once.
"""

import base64
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import uuid
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedding_kit.programs import contract
from tools.local_endpoint.events import to_event
from tools.local_endpoint.signature import SignedRequest
from tools.rehearsal.image.asset import ImageAsset, build
from tools.rehearsal.image.docker import PLATFORM, Docker, emulated
from tools.rehearsal.report import Report, first_few

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

#: Sends a request inside the container, without a network: the standard library only. There is no
#: timeout, because a start on an emulated processor takes minutes; the container of a program that
#: does not start is gone, and its clients with it.
CLIENT = """
import http.client, json, os, signal, sys, time
def connection():
    while True:
        made = http.client.HTTPConnection("127.0.0.1", 8080)
        try:
            made.connect()
            return made
        except ConnectionRefusedError:
            time.sleep(0.2)
def send(asked):
    made = connection()
    made.request(asked["method"], asked["path"], asked["body"], asked["headers"])
    answer = made.getresponse()
    return {"statusCode": answer.status, "body": answer.read().decode()}
"""
_ASK = f"""{CLIENT}
for line in sys.stdin:
    print(json.dumps(send(json.loads(line))), flush=True)
"""
_INVOCATION = {
    "method": "POST",
    "path": "/2015-03-31/functions/function/invocations",
    "headers": {},
}
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
        answers = self.ask([{**_INVOCATION, "body": json.dumps(event)} for event in events])
        return [json.loads(answer["body"]) for answer in answers]

    def ask(self, asked: Sequence[Mapping[str, Any]], program: str = _ASK) -> list[Any]:
        """Send requests, or run another Python program inside.

        Its input and its output have a JSON value on each line.
        """
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
        for source, mount_point in mounts.items():
            arguments += ["--volume", f"{source}:{mount_point}:ro"]
        return arguments


def compare(tested: Tested, vectors: Sequence[Sequence[float]], spaces: set[str]) -> None:
    """Check that vectors of `TEXTS` agree with those of the image's code on this machine."""
    own = tested.folder / "here"
    own.mkdir(exist_ok=True)
    for folder_name in ("artifact", "index", "embedder"):
        if (tested.task / folder_name).exists() and not (own / folder_name).exists():
            (own / folder_name).symlink_to(tested.task / folder_name)
    variables = {**tested.variables, "LAMBDA_TASK_ROOT": str(own), "PATH": "/usr/bin:/bin"}
    command, events = [sys.executable, "-c", _HERE], _lines(embed_events())
    done = subprocess.run(command, input=events, env=variables, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the handler fails on this machine:\n{done.stderr.decode()[-3000:]}")
    own_vectors, own_spaces = embedded([json.loads(line) for line in done.stdout.splitlines()])
    image_vectors, machine_vectors = np.array(vectors), np.array(own_vectors)
    lengths = np.linalg.norm(image_vectors, axis=1) * np.linalg.norm(machine_vectors, axis=1)
    cosine = float(np.min(np.einsum("ij,ij->i", image_vectors, machine_vectors) / lengths))
    precision = json.loads((tested.task / "artifact/manifest.json").read_text())["precision"]
    lowest = COSINE[precision]
    check = f"{precision}: the cosine to this machine's vectors is at least {lowest}"
    tested.report.check(check, cosine >= lowest, f"{cosine:.8f}")
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


#: The size from which a file may not be there twice.
_LARGE_BYTES = 1_000_000
_TASK = "var/task/"
#: Files that only a build needs, by their path below /var/task. The Python module of ONNX Runtime
#: contains its engine: libonnxruntime.so is a second copy.
_LEFTOVERS = re.compile(
    r"(^|/)(\.cache|pip-cache|\.npm|tests?)/"
    r"|(^|/)(test_[^/]*|conftest)\.py$"
    r"|^(pip|setuptools|wheel|ensurepip)(/|-)"
    r"|^(model_compiler|onnx|safetensors|huggingface_hub|ml_dtypes)(/|-)"
    r"|(^|/)(gcc|g\+\+|cc|clang|ld|make|cmake|pytorch_model\.bin)$"
    r"|\.(whl|c|cc|cpp|pyx|pxd|h|hpp|o|a|safetensors)$"
    r"|/libonnxruntime\.so(\.|$)"
)
#: The first bytes of a library, and the machine in its header: see elf(5).
_ELF, _AARCH64 = b"\x7fELF", (183).to_bytes(2, "little")


def unpack_image(docker: Docker, image: str, folder: Path) -> set[str]:
    """Unpack /var/task of an image into a new folder; return the paths of all other files."""
    archive = folder.with_suffix(".tar")
    container = docker.run("create", "--platform", PLATFORM, image).strip()
    docker.run("export", "--output", str(archive), container)
    docker.run("rm", container)
    folder.mkdir()
    with tarfile.open(archive) as tar:
        files = [member for member in tar if not member.isdir()]
        ours = [member for member in files if member.name.startswith(_TASK)]
        missing = {member.name for member in files} - {member.name for member in ours}
        for member in ours:
            member.name = member.name.removeprefix(_TASK)
        # Python 3.11.2, of Debian 12, has no filters, and no parameter for one.
        tar.extraction_filter = getattr(tarfile, "tar_filter", None)
        tar.extractall(folder, ours)  # noqa: S202 -- the files of our own image
    archive.unlink()
    return missing


def unpack_zip(archive: Path, folder: Path) -> None:
    """Unpack a zip into a new folder, with the modes of its files."""
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            Path(opened.extract(entry, folder)).chmod(entry.external_attr >> 16)


def check_tree(report: Report, folder: Path, *, most_bytes: int) -> None:
    """Check the unpacked files of /var/task, which without model and index have a limit."""
    files = {
        str(path.relative_to(folder)): path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    sizes = Counter[str]()
    groups: defaultdict[str, list[str]] = defaultdict(list)
    foreign = []
    for name, path in files.items():
        sizes[name.partition("/")[0]] += path.stat().st_size
        if path.stat().st_size >= _LARGE_BYTES:
            groups[hashlib.sha256(path.read_bytes()).hexdigest()].append(name)
        with path.open("rb") as opened:
            header = opened.read(20)
        if header.startswith(_ELF) and header[18:] != _AARCH64:
            foreign.append(name)
    leftovers = [name for name in files if _LEFTOVERS.search(name)]
    check = "no caches, tests, compilers, sources of libraries or of the model are in it"
    report.check(check, not leftovers, first_few(leftovers))
    doubled = [" = ".join(names) for names in groups.values() if len(names) > 1]
    report.check("no file of 1 MB or more is in it twice", not doubled, first_few(doubled))
    closed = [name for name, path in files.items() if not path.stat().st_mode & 0o004]
    report.check("Lambda's user, who owns no file, can read each", not closed, first_few(closed))
    report.check("each library is for ARM64", not foreign, first_few(foreign))
    other_bytes = sizes.total() - sizes["artifact"] - sizes["index"]
    largest = ", ".join(f"{name} {size / 1e6:.1f}" for name, size in sizes.most_common(6))
    check = f"everything except the model is under {most_bytes / 1e6:.0f} MB unpacked"
    report.check(
        check, other_bytes < most_bytes, f"{other_bytes / 1e6:.1f} MB; the largest: {largest}"
    )


EMBEDDER = contract().handlers["endpoint"]
#: The emulator's timeout of one request. Answers are checked for correctness, not for speed: with
#: an emulated processor on a busy machine, one text took 407 s, too close to Lambda's 900 s.
_FUNCTION_SECONDS = 6 * 3600
# Runs with the image's Python. Python uses a .pyc without a look at its source if the flags of its
# header say so (PEP 552): 0b01 is a hash of the source that is not checked.
_BYTECODE = """
import importlib.util, pathlib
sources = list(pathlib.Path("/var/task").rglob("*.py"))
for source in sources:
    compiled = pathlib.Path(importlib.util.cache_from_source(source))
    header = compiled.read_bytes()[:16] if compiled.exists() else b""
    hashed = importlib.util.source_hash(source.read_bytes())
    if header != importlib.util.MAGIC_NUMBER + bytes([1, 0, 0, 0]) + hashed:
        print(source)
print(len(sources))
"""


@dataclass(frozen=True, kw_only=True)
class Target:
    """An image, the variables that the stacks give it, and its limits.

    The limit is for everything except the base and the model, unpacked; `check` runs the image.
    """

    name: str
    asset: ImageAsset
    variables: Mapping[str, str]
    command: tuple[str, ...]
    most_bytes: int
    check: Callable[[Tested], None]


def build_target(
    report: Report, docker: Docker, target: Target, *, base: str, folder: Path
) -> Tested:
    """Build an image, and check its command, its files and its byte code."""
    asset = target.asset
    with report.step(f"building the {target.name} image: docker {' '.join(asset.command)}"):
        build(docker, asset)
    tested = Tested(
        report=report,
        docker=docker,
        asset=asset,
        variables=target.variables,
        folder=folder,
        task=folder / "task",
    )
    with report.step(f"reading the files of the {target.name} image"):
        image_files = unpack_image(docker, asset.tag, tested.task)
        added = sorted(image_files - unpack_image(docker, base, folder / "base"))
    platform = docker.run("image", "inspect", "--format", "{{.Os}}/{{.Architecture}}", asset.tag)
    stated = docker.run("image", "inspect", "--format", "{{json .Config.Cmd}}", asset.tag)
    command = tuple(json.loads(stated) or ())
    check = f"it is for {PLATFORM}, and its default command is {' '.join(target.command)}"
    holds = (platform.strip(), command) == (PLATFORM, target.command)
    report.check(check, holds, f"{platform.strip()}, {' '.join(command)}")
    report.check("it adds nothing outside /var/task", not added, first_few(added))
    check_tree(report, tested.task, most_bytes=target.most_bytes)
    check_bytecode(tested)
    return tested


def check_bytecode(tested: Tested, mounts: Mapping[Path, str] | None = None) -> None:
    """Check that Python compiles no module when it starts."""
    *faults, count = tested.python(_BYTECODE, mounts=mounts).split()
    check = f"each of its {count} modules has byte code that Python does not check at a start"
    tested.report.check(check, not faults and count != "0", first_few(faults))


def function_variables(function: dict[str, Any]) -> dict[str, str]:
    """Return the variables that the stacks set for a function, and those that Lambda sets."""
    stated = function.get("Environment", {}).get("Variables", {})
    return {
        **{name: value for name, value in stated.items() if isinstance(value, str)},
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.get("MemorySize", 128)),
        "AWS_LAMBDA_FUNCTION_NAME": "rehearsal",
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(_FUNCTION_SECONDS),
        "LAMBDA_TASK_ROOT": "/var/task",
    }
