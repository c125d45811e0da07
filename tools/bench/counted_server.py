"""The server, which counts the model's work in a file: a clock that a busy machine cannot slow.

`python -m tools.bench.counted_server FILE [FLAGS OF THE SERVER]`
"""

import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from embedder.server import __main__ as server
from embedder.server.queue import BatchingSession

#: Tokens of a full run: the server's own default.
_RUN_TOKENS = 256


class Work:
    """The model's work in a file that processes share.

    Its numbers are the tokens that were run, their seconds, and 1 when nothing more is counted.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            np.zeros(3).tofile(path)
        self._numbers: npt.NDArray[np.float64] = np.memmap(path, dtype=np.float64, mode="r+")

    def add(self, tokens: int, seconds: float) -> None:
        """Count a run."""
        self._numbers[:2] += (tokens, seconds)

    @property
    def runs(self) -> float:
        """The number of runs of 256 tokens; smaller ones count in part."""
        return float(self._numbers[0]) / _RUN_TOKENS

    @property
    def milliseconds(self) -> float:
        """The mean time of such a run."""
        return 1000 * float(self._numbers[1]) / self.runs

    @property
    def is_over(self) -> bool:
        """Whether nothing more is counted."""
        return bool(self._numbers[2])

    def end(self) -> None:
        """Count nothing more."""
        self._numbers[2] = 1


def main() -> int:
    """Serve until a signal; see `embedder.server`."""
    work, measure = Work(Path(sys.argv[1])), BatchingSession._measure

    def counted(queue: BatchingSession, tokens: int, seconds: float) -> None:
        work.add(tokens, seconds)
        measure(queue, tokens, seconds)

    with patch.object(BatchingSession, "_measure", counted):
        return server.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
