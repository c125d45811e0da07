"""The files of a run: which there are, what they may not touch, and how they get into place.

notes.npy               the vectors
notes.npy.json          what an array is: vector space, count, source
notes.npy.errors.jsonl  the rows without a vector
notes.npy.part          the vectors so far, while a run has not ended
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from embedding_client.errors import FileError
from embedding_client.formats import OUTPUTS
from embedding_client.sources import Source

__all__ = ["Outputs"]


@dataclass(frozen=True)
class Outputs:
    """The files that belong to an output.

    Args:
        path: of the output; its extension is the format.

    Raises:
        FileError: the extension is not known, or the folder does not exist.
    """

    path: Path

    def __post_init__(self) -> None:
        if self.suffix not in OUTPUTS:
            raise FileError(f"{self.path} must end in {', '.join(OUTPUTS)}: that is its format.")
        if not self.path.parent.is_dir():
            raise FileError(f"{self.path.parent} is not a folder.")
        if self.path.is_dir():
            raise FileError(f"{self.path} is a folder; --output must name a file.")

    @property
    def suffix(self) -> str:
        """The output's extension in lower case."""
        return self.path.suffix.lower()

    @property
    def part(self) -> Path:
        """Holds the vectors of a run that has not ended."""
        return self._beside(".part")

    @property
    def about(self) -> Path:
        """What an array is, as JSON."""
        return self._beside(".json")

    @property
    def report(self) -> Path:
        """The rows without a vector, as JSONL."""
        return self._beside(".errors.jsonl")

    def check(self, source: Source, *, overwrite: bool) -> None:
        """Checks that no file will be lost.

        Raises:
            FileError: a file of this output is the input, or is there and may not be replaced.
        """
        placed = [self.path, self.report, *([self.about] if self.suffix == ".npy" else [])]
        for path in (*placed, self.part, self._partial):
            if source.is_same_file(path):
                raise FileError(
                    f"{path} is the input itself, and would be lost. Choose another --output."
                )
        for path in placed:
            if os.path.lexists(path) and not overwrite:
                raise FileError(f"{path} is there already. Use --overwrite to replace it.")

    def place(
        self,
        write: Callable[[IO[bytes]], None],
        *,
        about: dict[str, object],
        report: list[dict[str, object]],
        check: Callable[[], None],
    ) -> None:
        """Writes the output beside its place and moves it there when it is whole, last of all.

        Args:
            write: writes the output into a file.
            about: what an array is.
            report: the rows without a vector.
            check: called when all is written; may refuse by raising an error.

        Raises:
            FileError: a file cannot be written; the output is as it was before.
        """
        try:
            _write(self._partial, write)
            check()
            if self.suffix == ".npy":
                self._put(self.about, json.dumps(about, indent=1) + "\n")
            if report:
                lines = "".join(json.dumps(row) + "\n" for row in report)
                self._put(self.report, lines)
            else:
                self.report.unlink(missing_ok=True)
            self._partial.replace(self.path)
        except OSError as error:
            raise FileError(f"{self.path} cannot be written: {error.strerror or error}.") from error
        finally:
            self._partial.unlink(missing_ok=True)

    @property
    def _partial(self) -> Path:
        return self.path.with_name(f".{self.path.name}.part-output")

    def _put(self, path: Path, text: str) -> None:
        partial = self.path.with_name(f".{path.name}.part-output")
        try:
            _write(partial, lambda file: _ignore(file.write(text.encode())))
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)


def _write(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    with path.open("wb") as file:
        write(file)
        file.flush()
        # Some file systems tell only here that the disk is full.
        os.fsync(file.fileno())


def _ignore(_: object) -> None:
    return None
