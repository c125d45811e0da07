"""Writes the artifact whole or not at all.

The files are written to a hidden sibling of the output folder, synchronised to the disk, and then
renamed into place. The manifest comes last, so that what a killed compile leaves behind cannot be
loaded; the next compile to the same place clears it away.
"""

import errno
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
    "file_sha256",
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

    If the block raises, or the folder cannot be moved, `output` is what it was before. An artifact
    at `output` is replaced; any other folder with something in it is not touched.

    Raises:
        OutputError: if the folder cannot be written, is not free, or the disk is full.
    """
    output = Path(os.path.realpath(output))
    partial = output.parent / f".{output.name}.partial"
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        _check_free(output)
        with _locked(partial):
            try:
                _recover(output)
                yield partial
                if not (partial / MANIFEST_FILE).exists():
                    raise RuntimeError("the artifact has no manifest")
                _synchronise(partial)
                _move(partial, output)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise OutputError(
            f"{output} cannot be written: {error.strerror or error}{_place(error)}. "
            f"{_left_at(output)}"
        ) from error


def describe_files(folder: Path) -> dict[str, dict[str, Any]]:
    """Return name, size in bytes and SHA-256 of each file of the folder but the manifest."""
    return {
        path.name: {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
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
            found = file_sha256(folder / name)
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
        _synchronise_entry(path)


def _move(partial: Path, output: Path) -> None:
    """Put the new folder in the place of the old one; on an error, put the old one back."""
    old = _old(output)
    try:
        shutil.rmtree(old, ignore_errors=True)
        if output.exists():
            output.rename(old)
        partial.rename(output)
        _synchronise_entry(output.parent)
    except OSError:
        if output.exists() and not partial.exists():
            output.rename(partial)
        _recover(output)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _recover(output: Path) -> None:
    """Put back the artifact that a compile had moved aside when it was killed or failed."""
    if _old(output).exists() and not output.exists():
        _old(output).rename(output)


def _old(output: Path) -> Path:
    """Return where the artifact that is being replaced is kept until the new one is in place."""
    return output.parent / f".{output.name}.old"


def _left_at(output: Path) -> str:
    """Say what an error has left at the output."""
    if output.exists():
        return "What was there before is still there."
    if _old(output).exists():
        return (
            f"The artifact that was there is now at {_old(output)}; the next compile restores it."
        )
    return "Nothing was left there."


def _synchronise_entry(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a regular file, in hexadecimal.

    Raises:
        OSError: if it cannot be read, or is a device, which may never end.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _place(error: OSError) -> str:
    return f" ({error.filename})" if error.filename else ""
