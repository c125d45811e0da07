"""Writes the artifact whole or not at all.

The files are written to a hidden sibling of the output folder, synchronised to the disk, and then
renamed into place. The manifest comes last, so that what a killed compile leaves behind cannot be
loaded; the next compile to the same place clears it away.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from embedder.artifact import manifest_checksum
from model_compiler.errors import OutputError

__all__ = [
    "FORMAT_VERSION",
    "MANIFEST_FILE",
    "describe_files",
    "manifest_bytes",
    "new_artifact",
    "verify_files",
]

#: The format of the manifest; the embedder refuses a newer one.
FORMAT_VERSION = 1
MANIFEST_FILE = "manifest.json"


@contextmanager
def new_artifact(output: Path) -> Iterator[Path]:
    """Give an empty folder to write the artifact's files to, and move it to `output` at the end.

    Where the block raises, nothing is left. An artifact that stands at `output` is replaced; any
    other folder with something in it is not touched.

    Raises:
        OutputError: if the folder cannot be written, is not free, or the disk is full.
    """
    output = output.absolute()
    _check_free(output)
    partial = output.parent / f".{output.name}.partial"
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        with _locked(partial):
            try:
                yield partial
                if not (partial / MANIFEST_FILE).exists():
                    raise RuntimeError("the artifact has no manifest")
                _synchronise(partial)
                _move(partial, output)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise OutputError(
            f"{output} cannot be written: {error.strerror or error}"
            f"{_place(error)}. Nothing was left there."
        ) from error


def describe_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Return name, size in bytes and SHA-256 of each file of the folder but the manifest."""
    return {
        path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(folder.iterdir())
        if path.name != MANIFEST_FILE
    }


def manifest_bytes(content: Mapping[str, Any]) -> bytes:
    """Return a manifest with its checksum, as the bytes of `manifest.json`."""
    return orjson.dumps(
        {**content, "checksum": manifest_checksum(content)},
        option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
    )


def verify_files(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Compare the SHA-256 of each file with what it should be; return what is wrong, in words."""
    wrong = []
    for name, expected in files.items():
        try:
            found = _sha256(folder / name)
        except OSError as error:
            wrong.append(f"{name} cannot be read: {error.strerror}")
            continue
        if found != expected:
            wrong.append(f"{name} has sha256 {found}; {expected} was expected")
    return wrong


def _check_free(output: Path) -> None:
    if not output.exists():
        return
    if not output.is_dir():
        raise OutputError(f"{output} is a file; --output must name a folder.")
    if any(output.iterdir()) and not (output / MANIFEST_FILE).exists():
        raise OutputError(
            f"{output} is a folder with other things in it, and is left as it is. "
            "--output must name a new or empty folder, or an artifact to replace."
        )


@contextmanager
def _locked(partial: Path) -> Iterator[None]:
    """Make `partial` an empty folder that no other compile writes to."""
    partial.mkdir(exist_ok=True)
    descriptor = os.open(partial, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OutputError(f"Another compile is writing to {partial}; wait for it.") from error
        for leftover in partial.iterdir():
            if leftover.is_dir():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()
        yield
    finally:
        os.close(descriptor)


def _synchronise(folder: Path) -> None:
    for path in (*folder.iterdir(), folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _move(partial: Path, output: Path) -> None:
    old = None
    if output.exists():
        old = output.parent / f".{output.name}.old"
        shutil.rmtree(old, ignore_errors=True)
        output.rename(old)
    partial.rename(output)
    descriptor = os.open(output.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if old:
        shutil.rmtree(old, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _place(error: OSError) -> str:
    return f" ({error.filename})" if error.filename else ""
