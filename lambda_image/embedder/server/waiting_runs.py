"""The order in which waiting runs are taken.

The keys are served in turn: the next run is of the key of which the fewest tokens were run, this
run included. So a text goes before another key's list, and keys with lists get equal parts of the
model. A key has no credit for a time in which it asked for nothing.

Of one key, requests that have a single run go before larger ones, which have at least every fourth
turn: a text hardly waits for a list, and a list does not wait for ever.

Runs of one padded length that wait at the same time are taken together, up to a number of tokens.
Padding does not change by that, so neither does any vector (see `embedder.core.planning`). A run
of a larger request does not join that of a single one, which would only wait for it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from embedder.core.model_runner import TokenBatch

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Turns of a key in which its single runs go before those of a larger request.
_TURNS_OF_SINGLES = 3


@dataclass(slots=True, eq=False)
class Ticket:
    """One request's place in the queue."""

    #: Name of the key that sent it, never the key; empty without keys.
    key: str = ""
    #: Closed when its runs have come to the queue, or never will.
    preparation: ExitStack = field(default_factory=ExitStack)
    #: Its runs until they are over. They refer to it, so its arrays would stay until Python looks
    #: for cycles.
    runs: "list[WaitingRun]" = field(default_factory=list)
    #: Number of runs that are not over.
    pending: int = 0
    #: Done when all runs are over or one has failed; cancelled when nobody waits any more.
    end: "Future[None]" = field(default_factory=Future)


class WaitingRun:
    """A batch of a request on its way through the queue."""

    def __init__(self, ticket: Ticket, batch: TokenBatch) -> None:
        self.ticket = ticket
        self.batch = batch
        self.texts = len(batch.input_ids)
        #: Tokens of each text and of all, padding included.
        self.padded_length = int(batch.input_ids.shape[1])
        self.tokens = int(batch.input_ids.size)
        #: `time.monotonic()` of the model's beginning and end.
        self.began = self.ended = 0.0
        self.vectors: npt.NDArray[np.float32] | None = None

    @property
    def of_list(self) -> bool:
        """Whether its request has other runs."""
        return len(self.ticket.runs) > 1


class WaitingRuns:
    """Waiting runs of all keys. At most `run_tokens` are taken together, but always one run."""

    def __init__(self, run_tokens: int) -> None:
        self._run_tokens = run_tokens
        #: Runs by key, in the order in which they came.
        self._runs: defaultdict[str, list[WaitingRun]] = defaultdict(list)
        #: Waiting tokens by key, padding included.
        self.tokens: Counter[str] = Counter()
        #: Tokens by key that were run or not asked for; turns of singles since the last of a list.
        self._served: Counter[str] = Counter()
        self._turns_of_singles: Counter[str] = Counter()
        #: The served tokens of the key that had the last turn.
        self._level = 0

    def __len__(self) -> int:
        return sum(map(len, self._runs.values()))

    def __iter__(self) -> Iterator[WaitingRun]:
        return chain.from_iterable(self._runs.values())

    def tokens_until_done(self, key: str) -> int:
        """Return how many tokens are run until those of a key are, at most."""
        return min(self.tokens.total(), self.tokens[key] * len(+self.tokens))

    def add(self, runs: list[WaitingRun]) -> None:
        """Add the runs of a request."""
        for run in runs:
            key = run.ticket.key
            if not self._runs[key]:
                self._served[key] = max(self._served[key], self._level)
            self._runs[key].append(run)
            self.tokens[key] += run.tokens

    def take(self) -> list[WaitingRun]:
        """Remove and return the run that is next, with those that run together with it."""
        firsts = {key: self._first(key) for key, runs in self._runs.items() if runs}
        keys = sorted(firsts, key=lambda key: self._served[key] + firsts[key].tokens)
        key, leader = keys[0], firsts[keys[0]]
        self._level = max(self._level, self._served[key])
        self._turns_of_singles[key] = 0 if leader.of_list else self._turns_of_singles[key] + 1
        # The keys join in turn as well; that of the leader has had its turn.
        joining = [
            [
                run
                for run in self._runs[joining_key]
                if run.padded_length == leader.padded_length
                and (leader.of_list or not run.of_list)
                and run is not leader
            ]
            for joining_key in (*keys[1:], key)
        ]
        taken, room = [leader], self._run_tokens - leader.tokens
        for run in chain.from_iterable(zip_longest(*joining)):
            if run is not None and run.tokens <= room:
                taken.append(run)
                room -= run.tokens
        for run in taken:
            self._served[run.ticket.key] += run.tokens
        self._remove(taken)
        return taken

    def drop(self, ticket: Ticket) -> None:
        """Remove all runs of a request."""
        self._remove([run for run in self._runs[ticket.key] if run.ticket is ticket])

    def _first(self, key: str) -> WaitingRun:
        turn_of_lists = self._turns_of_singles[key] >= _TURNS_OF_SINGLES
        return min(self._runs[key], key=lambda run: run.of_list != turn_of_lists)

    def _remove(self, runs: Iterable[WaitingRun]) -> None:
        gone = set(runs)
        for key in {run.ticket.key for run in gone}:
            self._runs[key] = [run for run in self._runs[key] if run not in gone]
        for run in gone:
            self.tokens[run.ticket.key] -= run.tokens
