"""Writes a folder completely or not at all.

The files are written to a hidden folder next to the output, flushed to the disk, and renamed into
place. If the rename fails, the previous folder is restored. A compile that was killed leaves a
hidden folder that cannot be loaded; the next compile to the same output removes it.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedder.core.artifact import MANIFEST_FILE
from model_compiler.errors import OutputError


@contextmanager
def new_folder(output: Path, *, marker: str = MANIFEST_FILE) -> Iterator[Path]:
    """Yield an empty folder to write to, and move it to `output` when the block ends.

    If the block raises, or the folder cannot be moved, `output` is unchanged. An output with the
    file `marker`, which every finished folder has, is replaced; any other that is not empty is left
    alone. Raises an OutputError if the folder cannot be written, is not free, or the disk is full.
    """
    output = Path(os.path.realpath(output))
    partial = output.parent / f".{output.name}.partial"
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        _check_free(output, marker)
        with _locked(partial):
            try:
                _restore_previous(output)
                yield partial
                if not (partial / marker).exists():
                    raise RuntimeError(f"the new folder has no {marker}")
                for path in (*partial.iterdir(), partial):
                    _flush(path)
                _move(partial, output)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        file = f" ({error.filename})" if error.filename else ""
        raise OutputError(
            f"{output} cannot be written: {error.strerror or error}{file}. {_state_of(output)}"
        ) from error


def _check_free(output: Path, marker: str) -> None:
    if not output.exists():
        return
    if not output.is_dir():
        raise OutputError(f"{output} is a file; the output must be a folder.")
    if any(output.iterdir()) and not (output / marker).exists():
        raise OutputError(
            f"{output} contains other files and was not changed. The output must be a new or empty "
            "folder, or an artifact to replace."
        )


@contextmanager
def _locked(partial: Path) -> Iterator[None]:
    """Create `partial` as an empty folder and lock it against other compiles."""
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


def _move(partial: Path, output: Path) -> None:
    """Replace the output by the new folder; restore the previous one if that fails."""
    previous = _previous(output)
    try:
        shutil.rmtree(previous, ignore_errors=True)
        if output.exists():
            output.rename(previous)
        partial.rename(output)
        _flush(output.parent)
    except OSError:
        if output.exists() and not partial.exists():
            output.rename(partial)
        _restore_previous(output)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def _restore_previous(output: Path) -> None:
    """Move back the folder that an interrupted or failed compile had moved aside."""
    if _previous(output).exists() and not output.exists():
        _previous(output).rename(output)


def _previous(output: Path) -> Path:
    """Return the path that holds the previous folder while it is being replaced."""
    return output.parent / f".{output.name}.old"


def _state_of(output: Path) -> str:
    if output.exists():
        return "The previous folder is unchanged."
    if _previous(output).exists():
        return f"The previous folder is now {_previous(output)}; the next compile restores it."
    return "Nothing was written."


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
