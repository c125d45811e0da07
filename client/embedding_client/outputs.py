"""The output files of a run: their names, the checks before a run, and the atomic replacement.

notes.npy               the vectors
notes.npy.json          a description of the array: vector space, count, source
notes.npy.errors.jsonl  the rows without a vector
notes.npy.part          the checkpoint of an unfinished run
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from embedding_client.errors import ConfigurationError, FileError
from embedding_client.formats import OUTPUTS
from embedding_client.sources import Source

__all__ = ["Outputs"]


@dataclass(frozen=True)
class Outputs:
    """The files that belong to an output.

    Args:
        path: The path of the output. Its extension is the format.

    Raises:
        ConfigurationError: If the extension is unknown, it is a folder, or it is in none.
    """

    path: Path

    def __post_init__(self) -> None:
        if self.suffix not in OUTPUTS:
            raise ConfigurationError(
                f"--output must end in {', '.join(OUTPUTS)}, which sets its format; found: "
                f"{self.path}."
            )
        if not self.path.parent.is_dir():
            raise ConfigurationError(
                f"--output must be in a folder that exists; found {self.path.parent}."
            )
        if self.path.is_dir():
            raise ConfigurationError(f"--output must name a file; found the folder {self.path}.")

    @property
    def suffix(self) -> str:
        """The extension of the output in lower case."""
        return self.path.suffix.lower()

    @property
    def part(self) -> Path:
        """The checkpoint of an unfinished run."""
        return self._beside(".part")

    @property
    def about(self) -> Path:
        """The description of an array, as JSON."""
        return self._beside(".json")

    @property
    def report(self) -> Path:
        """The list of the rows without a vector, as JSONL."""
        return self._beside(".errors.jsonl")

    def check(self, source: Source, *, overwrite: bool) -> None:
        """Check that the run will not destroy a file.

        Raises:
            FileError: If a file of this output is the input, or exists and must not be replaced.
        """
        placed = [self.path, self.report, *([self.about] if self.suffix == ".npy" else [])]
        for path in (*placed, self.part, self._temporary):
            if source.is_same_file(path):
                raise FileError(
                    f"{path} is the input file and would be lost. Choose another --output."
                )
        for path in placed:
            if os.path.lexists(path) and not overwrite:
                raise FileError(f"{path} already exists. Use --overwrite to replace it.")

    def place(
        self,
        write: Callable[[IO[bytes]], None],
        *,
        about: dict[str, object],
        report: list[dict[str, object]],
        check: Callable[[], None],
    ) -> None:
        """Write the output to a temporary file, then the other files, then move it into place.

        Args:
            write: Writes the output to a file.
            about: The description of an array.
            report: The rows without a vector.
            check: Called after the output is written. It may raise an error.

        Raises:
            FileError: If a file cannot be written. The output is unchanged.
        """
        try:
            _write(self._temporary, write)
            check()
            if self.suffix == ".npy":
                self._put(self.about, json.dumps(about, indent=1) + "\n")
            if report:
                lines = "".join(json.dumps(row) + "\n" for row in report)
                self._put(self.report, lines)
            else:
                self.report.unlink(missing_ok=True)
            self._temporary.replace(self.path)
        except OSError as error:
            raise FileError(f"{self.path} cannot be written: {error.strerror or error}.") from error
        finally:
            self._temporary.unlink(missing_ok=True)

    @property
    def _temporary(self) -> Path:
        return self.path.with_name(f".{self.path.name}.tmp")

    def _put(self, path: Path, text: str) -> None:
        temporary = self.path.with_name(f".{path.name}.tmp")
        try:
            _write(temporary, lambda file: _ignore(file.write(text.encode())))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)


def _write(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    with path.open("wb") as file:
        write(file)
        file.flush()
        # Some file systems report a full disk only here.
        os.fsync(file.fileno())


def _ignore(_: object) -> None:
    return None
