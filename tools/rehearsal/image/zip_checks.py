"""The zip of a function: built as a deploy builds it, checked as the image's layers are, and run.

It runs in a container of the built image, with the zip's files in place of the image's own. So the
libraries and byte code for ARM64 run as on Lambda, and its vectors are compared with the image's.
"""

import hashlib
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from embedding_kit.settings import Model
from embedding_kit.zip_command import build_command
from tools.rehearsal.image import contents
from tools.rehearsal.image.contents import TASK
from tools.rehearsal.image.image_under_test import ImageUnderTest, first_few
from tools.rehearsal.image.layer_checks import ASK_PYTHON, check_files, check_pyc_files
from tools.rehearsal.image.layers import LARGE_BYTES, File, Layer
from tools.rehearsal.image.report import Report
from tools.rehearsal.image.runtime import embed_events, running
from tools.rehearsal.image.vectors import SHORT_TEXTS, vectors_of
from zip_builder.target_python import find_python
from zip_builder.tree import LIMIT_BYTES

__all__ = ["MOST_BYTES", "build_zip", "check_zip", "check_zip_runs"]

#: The most that packages and code may take, unpacked. Synth counts with 78 MB, and leaves room.
MOST_BYTES = 80_000_000
_BY = "the zip's entries"
#: The first bytes of a library, and the machine in its header; see elf(5).
_ELF, _AARCH64 = b"\x7fELF", (183).to_bytes(2, "little")


def build_zip(model: Model) -> Path:
    """Build the zip of a model with the command of a deploy, and return its path."""
    command = build_command(model)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip())


def check_zip(report: Report, archive: Path) -> None:
    """Check contents, byte code and sizes of a zip with the rules of the image's layers."""
    with zipfile.ZipFile(archive) as opened:
        entries = opened.infolist()
        task = {TASK / entry.filename: opened.read(entry) for entry in entries}
    files = [_file(entry, task[TASK / entry.filename]) for entry in entries]
    check_files(report, "zip", files, every=files, by=_BY)
    modules = {path: task[path] for path in task if path.suffix in {".py", ".pyc"}}
    asked = [find_python(), "-c", ASK_PYTHON]
    python = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True).stdout
    check_pyc_files(report, "zip", modules, python=python, by=_BY)
    sizes = contents.sizes([Layer(digest="", files=tuple(files), member="")])
    _check_sizes(report, archive, sizes)
    programs = {path: task[path] for path in task if task[path].startswith(_ELF)}
    foreign = [str(path) for path, content in programs.items() if content[18:20] != _AARCH64]
    report.check(
        "zip",
        f"each of its {len(programs)} libraries is for ARM64",
        bool(programs) and not foreign,
        by="the ELF headers",
        found=first_few(foreign),
    )


def check_zip_runs(tested: ImageUnderTest, archive: Path) -> None:
    """Run the zip's files in the image's container, and compare the vectors bit by bit."""
    tree = tested.folder / "zip"
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tree)
    for folder in (tree, *tree.rglob("*")):
        folder.chmod(0o755 if folder.is_dir() else 0o644)
    with tested.report.step("running the zip's files in the container, and the image's own"):
        of_zip = _answers(tested, {tree: str(TASK)})
        of_image = _answers(tested, {})
    equal = np.array_equal(vectors_of(of_zip), vectors_of(of_image))
    tested.report.check(
        "zip",
        f"its vectors of {len(SHORT_TEXTS)} texts equal the image's to the last bit",
        equal and len(of_zip) == len(SHORT_TEXTS),
        by="the emulator in the container, with the zip's files mounted at /var/task",
        found=f"{len(of_zip)} answers",
    )


def _answers(tested: ImageUnderTest, mounts: dict[Path, str]) -> Sequence[Any]:
    with running(
        tested.docker, tested.asset.tag, environment=tested.variables, mounts=mounts
    ) as container:
        return container.invoke(embed_events(SHORT_TEXTS))


def _file(entry: zipfile.ZipInfo, content: bytes) -> File:
    large = entry.file_size >= LARGE_BYTES
    return File(
        path=PurePosixPath(TASK, entry.filename),
        size=entry.file_size,
        mode=entry.external_attr >> 16 & 0o777,
        digest=hashlib.sha256(content).hexdigest() if large else "",
    )


def _check_sizes(report: Report, archive: Path, sizes: dict[str, dict[str, int]]) -> None:
    of = {kind: sum(tops.values()) for kind, tops in sizes.items()}
    beside, total = sum(of.values()) - of["model"], sum(of.values())
    report.check(
        "zip",
        f"everything except the model is under {MOST_BYTES / 1e6:.0f} MB unpacked",
        beside < MOST_BYTES,
        by=_BY,
        found=f"{beside / 1e6:.1f} MB",
    )
    report.check(
        "zip",
        f"Lambda unpacks it: up to {LIMIT_BYTES / 1e6:.0f} MB",
        total <= LIMIT_BYTES,
        by=_BY,
        found=f"{total / 1e6:.1f} MB, {archive.stat().st_size / 1e6:.1f} MB compressed",
    )
    listed = ", ".join(f"{kind} {size / 1e6:.1f}" for kind, size in of.items())
    report.note(f"The zip, MB unpacked: {listed}.")
    for kind, tops in sizes.items():
        largest = [f"{top} {size / 1e6:.1f}" for top, size in list(tops.items())[:12]]
        report.note(f"In the zip's {kind}, MB: {', '.join(largest)}.")
