"""The blocks that a start reads from an image.

Lambda loads an image over the network in blocks of 512 KiB, when a process first reads a page of
one (Brooker et al., "On-demand Container Loading in AWS Lambda", USENIX ATC 2023). So the number of
distinct blocks decides how long a start waits for its files.

The function's files are put into a separate file system that reads nothing ahead, which needs
root. After a start and one request, the kernel says which pages were read (`mincore`). Files are
counted one after the other, each from a page of 4 KiB: in the order of their paths, as an image's
layers have them, or first the files that a start reads. Python itself is in the base image, and
not counted.
"""

import argparse
import ctypes
import mmap
import os
import platform
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.bench.report import KIT, ROOT, Comparison, ReportRow
from tools.local_endpoint.models import DEFAULT_MODEL
from zip_builder.build import build_zip
from zip_builder.model import Models
from zip_builder.tree import find_python

_BLOCK, _PAGE = 512 << 10, mmap.PAGESIZE
_ORDERED = "ordered"
#: Starts the handler as Lambda does, and embeds a text.
_START = """
import json
from embedder.aws_lambda.handler import handler
body = json.dumps({"text": "hello world"})
http = {"method": "POST", "path": "/", "sourceIp": "127.0.0.1"}
context = {"http": http, "requestId": "1", "domainName": "localhost"}
event = {"version": "2.0", "rawPath": "/", "headers": {}, "requestContext": context, "body": body}
answer = handler(event, None)
assert answer["statusCode"] == 200, answer
"""


OPTIONS: Mapping[str, Any] = {
    "--model": {"default": DEFAULT_MODEL, "help": "default: %(default)s"},
    "--files": {"action": "store_true", "help": "list the files that a start reads"},
}


def measure(options: argparse.Namespace) -> Comparison:
    """Count the blocks of one start of a model's function."""
    if os.geteuid():
        raise SystemExit("error: `scripts/bench blocks` mounts a file system, which needs root")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models, recipe = Models({"model": {"name": options.model}}), ROOT / "lambda_image"
        archive = build_zip(models, recipe=recipe, cache=options.cache, machine=platform.machine())
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder / "files")
        _start(folder / "files")  # Python's own byte code is written, if it was not.
        with _mounted(folder) as tree:
            _start(tree)
            files = _files(tree)
            read = {path: pages(path) for path in files}
    order = sorted(files, key=lambda path: (not any(read[path]), path))
    all_read = {path: [True] * len(read[path]) for path in files}
    notes = [
        f"{sum(map(any, read.values()))} of {len(files)} files",
        f"the whole image without its base: {blocks(files, all_read)} blocks",
    ]
    for path in order if options.files else ():
        if found := sum(read[path]):
            size = f"{found * _PAGE >> 10} of {len(read[path]) * _PAGE >> 10} KiB"
            notes.append(f"{path.relative_to(tree)}: {size}, {blocks([path], read)} blocks")
    megabytes = sum(map(sum, read.values())) * _PAGE / 1e6
    counts = {KIT: blocks(files, read), _ORDERED: blocks(order, read)}
    return Comparison(
        f"Blocks of a start of {options.model}",
        {KIT: "in the order of their paths", _ORDERED: "what a start reads first"},
        [
            ReportRow("distinct blocks", "of 512 KiB", counts),
            ReportRow("pages read", "MB", {KIT: megabytes, _ORDERED: megabytes}),
        ],
        base=KIT,
        notes=notes,
    )


def _start(tree: Path) -> None:
    """Start the unpacked zip for this machine, and let it answer a request."""
    variables = {"PYTHONPATH": str(tree), "LAMBDA_TASK_ROOT": str(tree), "PATH": "/usr/bin:/bin"}
    command = [find_python(), "-S", "-B", "-c", _START]
    subprocess.run(command, env=variables, capture_output=True, check=True)  # noqa: S603 - ours


@contextmanager
def _mounted(folder: Path) -> Iterator[Path]:
    """Mount the folder's `files` in a separate file system that reads nothing ahead."""
    image, mount_point = folder / "image", folder / "mounted"
    mount_point.mkdir()
    size = 2 * sum(path.stat().st_size for path in _files(folder / "files")) + (64 << 20)
    with image.open("wb") as file:
        file.truncate(size)
    _run("mkfs.ext4", "-q", "-d", folder / "files", image)
    _run("mount", "-o", "loop,ro", image, mount_point)
    try:
        device = _run("findmnt", "-no", "SOURCE", mount_point).strip()
        _run("blockdev", "--setra", "0", device)
        yield mount_point
    finally:
        _run("umount", mount_point)


def _run(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603


def blocks(order: Iterable[Path], read: Mapping[Path, list[bool]]) -> int:
    """Return how many blocks have a page that was read."""
    page, blocks_read = 0, set()
    for path in order:
        blocks_read |= {
            (page + offset) * _PAGE // _BLOCK for offset, was in enumerate(read[path]) if was
        }
        page += len(read[path])
    return len(blocks_read)


def pages(path: Path) -> list[bool]:
    """Return of each page of a file whether the page cache has it."""
    size = path.stat().st_size
    if not size:
        return []
    library = ctypes.CDLL(None, use_errno=True)
    state = (ctypes.c_ubyte * -(-size // _PAGE))()
    # ctypes needs a mapping that could be written: this one is private, and its pages the cache's.
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        address = ctypes.c_char.from_buffer(mapped)
        failed = library.mincore(ctypes.byref(address), ctypes.c_size_t(size), state)
        del address  # A mapping in use cannot be closed.
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, f"mincore: {os.strerror(number)}", str(path))
    return [bool(byte & 1) for byte in state]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
