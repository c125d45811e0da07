"""`scripts/bench zip`: the zip of a function: its sizes, its build, and its start.

The zip for ARM64 is built twice from nothing and compared. The same zip with packages for this
machine is started in Python 3.13 with its files alone, with and without its byte code.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.bench.machine import cpu_name
from tools.local_endpoint.models import DEFAULT_MODEL
from zip_builder.build import build_zip
from zip_builder.model import ModelChoice
from zip_builder.target_python import find_python

__all__ = ["Build", "Start", "as_text", "main", "measure_build", "measure_start"]

_RECIPE = Path(__file__).resolve().parents[2] / "lambda_image"
#: Starts the handler as Lambda does, embeds a text, and prints CPU milliseconds and peak memory.
_START = """
import json, os, sys, time
from embedder.aws_lambda.handler import handler
started = time.process_time()
body = json.dumps({"text": "hello world"})
http = {"method": "POST", "path": "/", "sourceIp": "127.0.0.1"}
context = {"http": http, "requestId": "1", "domainName": "localhost"}
event = {"version": "2.0", "rawPath": "/", "headers": {}, "requestContext": context, "body": body}
answers, sys.stdout = sys.stdout, sys.stderr
answer = handler(event, None)
assert answer["statusCode"] == 200, answer
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
first = 1000 * (time.process_time() - started)
print(json.dumps([1000 * started, first, int(peak.split()[1]) * 1024]), file=answers)
"""


@dataclass(frozen=True, slots=True)
class Build:
    """The zip for ARM64: bytes, seconds to build it from nothing, and with changed code."""

    zipped: int
    unpacked: int
    seconds: float
    seconds_of_code: float
    same_bytes: bool


@dataclass(frozen=True, slots=True)
class Start:
    """A start here: CPU milliseconds until the handler is imported, of the first answer; memory."""

    byte_code: bool
    import_ms: float
    answer_ms: float
    peak_bytes: int


def measure_build(model: str, folder: Path) -> Build:
    """Build the zip twice, each time with an empty cache, and once more without its code."""
    archives, seconds = [], []
    for name in ("one", "other"):
        began = time.monotonic()
        archives.append(_build(model, folder / name))
        seconds.append(time.monotonic() - began)
    one, other = archives
    content = one.read_bytes()
    with zipfile.ZipFile(one) as opened:
        unpacked = sum(entry.file_size for entry in opened.infolist())
    one.unlink()
    began = time.monotonic()
    _build(model, folder / "one")
    return Build(
        zipped=len(content),
        unpacked=unpacked,
        seconds=min(seconds),
        seconds_of_code=time.monotonic() - began,
        same_bytes=content == other.read_bytes(),
    )


def measure_start(tree: Path, *, byte_code: bool, rounds: int) -> Start:
    """Start the function some times, and return the medians.

    Args:
        tree: The unpacked zip for this machine.
        byte_code: Whether the tree has its byte code; only for the result.
        rounds: The number of measured starts, after one that is not.
    """
    command = [find_python(), "-S", "-B", "-c", _START]
    variables = {"PYTHONPATH": str(tree), "LAMBDA_TASK_ROOT": str(tree), "PATH": "/usr/bin:/bin"}
    found = []
    for _ in range(rounds + 1):
        done = subprocess.run(  # noqa: S603 - a program of ours
            command, env=variables, capture_output=True, text=True, check=True
        )
        found.append(json.loads(done.stdout))
    imported, answer, peak = (statistics.median(part) for part in zip(*found[1:], strict=True))
    return Start(byte_code, imported, answer, int(peak))


def as_text(build: Build, starts: Sequence[Start]) -> str:
    """Return the results as lines."""
    lines = [f"zip: {build.zipped / 1e6:.1f} MB, {build.unpacked / 1e6:.1f} MB unpacked"]
    lines.append(
        f"built in {build.seconds:.0f} s from nothing, {build.seconds_of_code:.0f} s with changed "
        f"code; built twice: {'the same' if build.same_bytes else 'OTHER'} bytes"
    )
    for start in starts:
        name = "with byte code" if start.byte_code else "without byte code"
        lines.append(
            f"{name}: {start.import_ms:.0f} ms of CPU to import and load, {start.answer_ms:.0f} ms "
            f"for the first answer, {start.peak_bytes / 1e6:.0f} MB at the peak"
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and save the results as JSON."""
    parser = argparse.ArgumentParser(prog="scripts/bench zip", description=__doc__)
    parser.add_argument("--model", default=DEFAULT_MODEL, help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=9, help="starts; default: %(default)s")
    parser.add_argument("--output", type=Path, default=Path(".cache/bench"))
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build = measure_build(options.model, folder)
        starts = []
        archive = _build(options.model, folder / "one", machine=platform.machine())
        for byte_code in (True, False):
            tree = folder / f"tree-{byte_code}"
            with zipfile.ZipFile(archive) as opened:
                names = [n for n in opened.namelist() if byte_code or not n.endswith(".pyc")]
                opened.extractall(tree, names)
            starts.append(measure_start(tree, byte_code=byte_code, rounds=options.rounds))
    sys.stdout.write(as_text(build, starts))
    options.output.mkdir(parents=True, exist_ok=True)
    saved = options.output / "zip.json"
    found = {"machine": cpu_name(), "build": asdict(build), "starts": [asdict(s) for s in starts]}
    saved.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(f"saved: {saved}\n")
    return 0


def _build(model: str, cache: Path, *, machine: str = "aarch64") -> Path:
    return build_zip(ModelChoice(name=model), recipe=_RECIPE, cache=cache, machine=machine)
