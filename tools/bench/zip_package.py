"""The zip of a function: its sizes, its build, and its start.

The zip for ARM64 is built twice from nothing and compared. The same zip with packages for this
machine is started in Python 3.13 with its files alone, with and without its byte code.
"""

import argparse
import json
import platform
import subprocess
import tempfile
import time
import zipfile
from functools import partial
from pathlib import Path

from tools.bench.run import KIT, ROOT, Row, Run, middle, turns
from tools.local_endpoint.models import DEFAULT_MODEL
from zip_builder.build import build_zip
from zip_builder.model import ModelChoice
from zip_builder.target_python import find_python

_SOURCES = "sources"
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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the subject's options."""
    parser.add_argument("--model", default=DEFAULT_MODEL, help="default: %(default)s")


def measure(options: argparse.Namespace) -> Run:
    """Measure the zip of a model."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        builds = [_built(options.model, folder / cache) for cache in ("one", "other")]
        (archive, _), (other, _) = builds
        same = archive.read_bytes() == other.read_bytes()
        with zipfile.ZipFile(archive) as opened:
            sizes = (archive.stat().st_size, sum(entry.file_size for entry in opened.infolist()))
        here, _ = _built(options.model, folder / "one", machine=platform.machine())
        trees = {KIT: folder / "tree", _SOURCES: folder / "sources"}
        with zipfile.ZipFile(here) as opened:
            opened.extractall(trees[KIT])
            names = [name for name in opened.namelist() if not name.endswith(".pyc")]
            opened.extractall(trees[_SOURCES], names)
        work = {name: partial(start, tree) for name, tree in trees.items()}
        starts = turns(work, rounds=3 * options.rounds)
    columns = [
        middle({name: [one[place] for one in runs] for name, runs in starts.items()})
        for place in range(3)
    ]
    return Run(
        f"The zip of {options.model}",
        {KIT: "the zip", _SOURCES: "without byte code"},
        [
            Row("size", "MB", {KIT: sizes[0] / 1e6}),
            Row("unpacked", "MB", {KIT: sizes[1] / 1e6}),
            Row("build from nothing", "s", {KIT: min(seconds for _, seconds in builds)}),
            Row("start until the handler is imported", "ms of CPU time", columns[0]),
            Row("first answer", "ms of CPU time", columns[1]),
            Row("peak memory", "MB", columns[2]),
        ],
        base=_SOURCES,
        notes=[f"built twice from nothing: {'the same' if same else 'OTHER'} bytes"],
    )


def start(tree: Path) -> tuple[float, float, float]:
    """Start the unpacked zip for this machine, and let it answer a request.

    Returns:
        CPU milliseconds until the handler is imported, and of the first answer; peak memory in MB.
    """
    done = subprocess.run(  # noqa: S603 - a program of ours
        [find_python(), "-S", "-B", "-c", _START],
        env={"PYTHONPATH": str(tree), "LAMBDA_TASK_ROOT": str(tree), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    imported, answer, peak = json.loads(done.stdout)
    return imported, answer, peak / 1e6


def _built(model: str, cache: Path, *, machine: str = "aarch64") -> tuple[Path, float]:
    """Return the zip and the seconds of its build."""
    began = time.monotonic()
    recipe = ROOT / "lambda_image"
    archive = build_zip(ModelChoice(name=model), recipe=recipe, cache=cache, machine=machine)
    return archive, time.monotonic() - began
