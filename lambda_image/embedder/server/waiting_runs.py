"""The runs that wait for a worker, in the order in which they are due.

A run is due at the time of its arrival plus a patience for each token of its request up to its own
end. So a single text is due almost at once, and the last run of a large list long after its first:
small requests go first. As no run becomes due later, and each new one is due after its arrival, a
run waits at most its patience behind those that came later: no request is starved.

Runs of one padded length that wait at the same time are taken together, up to a number of tokens.
Padding does not change by that, so neither does any vector (see `embedder.planning`). A run that is
large enough by itself is not taken with a smaller one that is due before it: nothing would be
saved, and a single text would wait for the run of a list.
"""

from bisect import insort
from typing import TYPE_CHECKING, Any

from embedder.runtimes import Batch

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["WaitingRun", "WaitingRuns"]


#: Tokens from which on a run saves nothing by being merged. MiniLM takes 2.5 ms for a text of 8
#: tokens, 1.2 for each of eight of them, and no less for each of more.
_LARGE = 64


class WaitingRun:
    """A batch of a request on its way through the queue.

    Args:
        owner: what the batch belongs to.
        batch: the batch.
    """

    __slots__ = ("batch", "began", "due", "ended", "number", "owner", "size", "tokens", "vectors")

    def __init__(self, owner: Any, batch: Batch) -> None:
        self.owner = owner
        self.batch = batch
        #: Padded length of each input, and tokens of all, padding included.
        self.tokens = int(batch.input_ids.shape[1])
        self.size = int(batch.input_ids.size)
        self.due = 0.0
        self.number = 0
        #: `time.monotonic()` of the model's beginning and end.
        self.began = self.ended = 0.0
        self.vectors: npt.NDArray[np.float32] | None = None

    def __lt__(self, other: "WaitingRun") -> bool:
        return (self.due, self.number) < (other.due, other.number)


class WaitingRuns:
    """Waiting runs by their padded length.

    Args:
        budget: the most tokens that are taken together; one run is always taken.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._groups: dict[int, list[WaitingRun]] = {}
        self._count = 0
        #: Tokens of all waiting runs, padding included.
        self.tokens = 0

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def __bool__(self) -> bool:
        return bool(self._groups)

    def add(self, run: WaitingRun, due: float) -> None:
        """Add a run that is due at this time; of two at the same time the first stays first."""
        self._count += 1
        run.due, run.number = due, self._count
        insort(self._groups.setdefault(run.tokens, []), run)
        self.tokens += run.size

    def take(self) -> list[WaitingRun]:
        """Remove and return the run that is due first, with those that run together with it."""
        group = min(self._groups.values(), key=lambda runs: runs[0])
        taken: list[WaitingRun] = []
        left: list[WaitingRun] = []
        size = 0
        for run in group:
            if taken and (size + run.size > self._budget or run.size > max(_LARGE, taken[0].size)):
                left.append(run)
                continue
            taken.append(run)
            size += run.size
        self._replace(taken[0].tokens, left)
        self.tokens -= size
        return taken

    def drop(self, owner: Any) -> None:
        """Remove all runs of an owner."""
        for tokens, group in list(self._groups.items()):
            kept = [run for run in group if run.owner is not owner]
            if len(kept) < len(group):
                self.tokens -= sum(run.size for run in group if run.owner is owner)
                self._replace(tokens, kept)

    def _replace(self, tokens: int, runs: list[WaitingRun]) -> None:
        if runs:
            self._groups[tokens] = runs
        else:
            del self._groups[tokens]
