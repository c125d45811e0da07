"""A model's folder: its files by their paths, listed, linked, hashed, and read once."""

import atexit
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model_compiler.errors import SourceError
from model_compiler.files.config import ConfigFile, read_file, read_json


@dataclass(frozen=True)
class ConfigFolder:
    """A folder of a model, with the contents of its files that were read.

    The folders in it share the contents. Weights and `tokenizer.json`, which are large, are not
    kept here.
    """

    path: Path
    #: The value of each file, or the error that it raised.
    _contents: dict[Path, Any] = field(default_factory=dict, repr=False, compare=False)

    def __str__(self) -> str:
        return str(self.path)

    def within(self, name: str) -> "ConfigFolder":
        """Return a folder in this one, or this one for an empty name."""
        return ConfigFolder(self.path / name, self._contents)

    def has(self, name: str) -> bool:
        """Return whether a file is there, of whatever kind."""
        return (self.path / name).exists()

    def config(self, name: str, *, optional: bool = False) -> ConfigFile:
        """Return a JSON file of which no key was read; an optional one that is missing is empty."""
        value = {} if optional and not self.has(name) else self.json(name)
        return ConfigFile(self.path / name, value)

    def stated(self, name: str, key: str) -> object:
        """Return a value; None if it or the file is missing or damaged, which others report."""
        try:
            return self.config(name).optional(key)
        except SourceError:
            return None

    def json(self, name: str) -> Any:
        """Return the value of a JSON file, which is not to be changed."""
        return self._once(name, read_json)

    def content(self, name: str, most: int) -> bytes:
        """Return the content of another file, of at most so many bytes."""
        return bytes(self._once(name, lambda path: read_file(path, most)))

    def _once(self, name: str, read: Callable[[Path], Any]) -> Any:
        path = self.path / name
        if path not in self._contents:
            try:
                self._contents[path] = read(path)
            except SourceError as error:
                self._contents[path] = error
        if isinstance(self._contents[path], SourceError):
            raise self._contents[path]
        return self._contents[path]


def files_in(folder: Path) -> dict[str, Path]:
    """Return the files of a folder by their paths in it, with slashes."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in paths}


def linked_folder(files: Mapping[str, Path]) -> Path:
    """Return a new folder of links to files, by their paths in it; it is removed at exit."""
    folder = Path(tempfile.mkdtemp(prefix="embedding-kit-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, file in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.realpath(file))
    return folder


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a regular file, in hexadecimal; raises an OSError for another."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify_files(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Compare the SHA-256 of each file with the expected one; return a message per mismatch."""
    mismatches = []
    for name, expected in files.items():
        try:
            actual = file_sha256(folder / name)
        except OSError as error:
            mismatches.append(f"{name} cannot be read: {error.strerror}")
            continue
        if actual != expected:
            mismatches.append(f"{name} has sha256 {actual}; {expected} was expected")
    return mismatches
