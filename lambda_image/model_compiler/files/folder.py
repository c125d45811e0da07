"""A folder of which each file with settings is read once, however many readers ask for it."""

from collections.abc import Callable
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
