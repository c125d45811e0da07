"""What callers share: how much each may hold, and which of the waiting runs is next.

`Shares` is what makes the server answer 429. `WaitingRuns` says which caller is next, and which of
its runs.

**Between callers**, each gets an equal part of the tokens that are run, as in start-time fair
queueing (Goyal, Vin, Cheng: https://doi.org/10.1145/248157.248171). The next run is the one of the
caller that has had the least, the run itself included. So a text goes before the run of another
caller's list, and lists take turns. A caller that comes back has no credit for the time in which it
asked for nothing.

**Of one caller**, a run is due at the time of its arrival plus a patience for each token of its
request up to its own end. So a single text is due very soon, and the last run of a large list
long after its first: small requests go first. As no run becomes due later, and each new one is due
after its arrival, a run waits at most its patience behind those that came later: no request is
starved.

Runs of one padded length that wait at the same time are taken together, up to a number of tokens.
Padding does not change by that, so neither does any vector (see `embedder.core.planning`). A run
that is large enough by itself is not taken with a smaller one that is due before it: nothing would
be saved, and a single text would wait for the run of a list.
"""

import math
from bisect import insort
from collections import defaultdict
from collections.abc import Iterator
from heapq import merge
from typing import TYPE_CHECKING, Any

from embedder.core.errors import OverloadedError
from embedder.core.model_runner import TokenBatch

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Tokens from which on a run saves nothing by being merged. MiniLM takes 2.5 ms for a text of 8
#: tokens, 1.2 for each of eight of them, and no less for each of more.
_LARGE = 64


class Shares:
    """What callers hold of something that is bounded, such as tokens that wait.

    A caller may take what is free. A caller that holds less than an equal part may take up to that
    part even if nothing is free, and one that holds nothing may always take something: so no other
    caller, whatever it holds, can have it refused. All n callers together hold up to 1 + 1/2 + … +
    1/n times the bound.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        #: By the caller's name; without those that hold nothing.
        self._held: dict[str, int] = {}
        self.total = 0

    def check(self, caller: str, more: int, most: int, *, seconds_each: float = 0.0) -> None:
        """Refuse a caller that may not take so much `more`, where all together may hold `most`.

        More than half of a bound counts as half of it. So a list that is larger than the bound is
        taken as soon as half of it is free, and not only when nothing is held. `Retry-After` says
        when the caller's own work is done, if each of what is held takes `seconds_each` and callers
        get equal parts of the time.
        """
        own = self._held.get(caller, 0)
        share = most // max(1, len(self._held))
        # Who holds nothing passes, because no more than half of its share counts.
        if any(
            held + min(more, bound - bound // 2) <= bound
            for held, bound in ((self.total, most), (own, share))
        ):
            return
        seconds = min(self.total, own * len(self._held)) * seconds_each
        retry_after = max(1, math.ceil(seconds))
        raise OverloadedError(
            f"The server has too much to do: it has {own} {self._what} of this caller, and at most "
            f"{share} are allowed now. Send the request again in {retry_after} s.",
            headers={"retry-after": str(retry_after)},
        )

    def take(self, caller: str, amount: int) -> None:
        """Add to what a caller holds; less than zero gives it back."""
        held = self._held.get(caller, 0) + amount
        self.total += amount
        if held:
            self._held[caller] = held
        else:
            self._held.pop(caller, None)


class WaitingRun:
    """A batch of a request, its owner, on its way through the queue."""

    def __init__(self, owner: Any, batch: TokenBatch, caller: str = "") -> None:
        self.owner = owner
        self.batch = batch
        self.caller = caller
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


class _Caller:
    """A caller's waiting runs by their padded length, each in the order in which they are due."""

    __slots__ = ("groups", "had")

    def __init__(self) -> None:
        self.groups: dict[int, list[WaitingRun]] = {}
        #: Tokens that were run for it, in the time of `WaitingRuns`.
        self.had = 0

    def first(self) -> WaitingRun:
        return min(runs[0] for runs in self.groups.values())

    def ranked(self, tokens: int) -> Iterator[tuple[int, WaitingRun]]:
        """Yield the runs of a padded length, each with what the caller will have had then."""
        had = self.had
        for run in self.groups.get(tokens, ()):
            had += run.size
            yield had, run


class WaitingRuns:
    """Waiting runs by their caller and their padded length.

    Up to `budget` tokens are taken together; one run is always taken.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._callers: defaultdict[str, _Caller] = defaultdict(_Caller)
        self._count = 0
        #: What the caller that was next had had.
        self._now = 0
        #: Tokens that wait, padding included.
        self.shares = Shares("waiting tokens")

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return self.shares.total > 0

    def __iter__(self) -> Iterator[WaitingRun]:
        for caller in self._callers.values():
            for runs in caller.groups.values():
                yield from runs

    def add(self, run: WaitingRun, due: float) -> None:
        """Add a run that is due at this time; of two at the same time the first stays first."""
        self._count += 1
        run.due, run.number = due, self._count
        caller = self._callers[run.caller]
        if not caller.groups:
            caller.had = max(caller.had, self._now)
        insort(caller.groups.setdefault(run.tokens, []), run)
        self.shares.take(run.caller, run.size)

    def take(self) -> list[WaitingRun]:
        """Remove and return the run that is next, with those that run together with it."""
        waiting = [caller for caller in self._callers.values() if caller.groups]
        heads = ((caller, caller.first()) for caller in waiting)
        caller, first = min(heads, key=lambda head: (head[0].had + head[1].size, head[1]))
        self._now = max(self._now, caller.had)
        taken, size = [first], first.size
        for _, run in merge(*[caller.ranked(first.tokens) for caller in waiting]):
            if size + first.tokens > self._budget:
                break
            if run is not first and run.size <= min(self._budget - size, max(_LARGE, first.size)):
                taken.append(run)
                size += run.size
        for run in taken:
            self._callers[run.caller].had += run.size
        self._remove(taken)
        return taken

    def drop(self, owner: Any) -> None:
        """Remove all runs of an owner."""
        self._remove([run for run in self if run.owner is owner])

    def _remove(self, runs: list[WaitingRun]) -> None:
        gone = set(runs)
        for caller, tokens in {(run.caller, run.tokens) for run in gone}:
            groups = self._callers[caller].groups
            groups[tokens] = [run for run in groups[tokens] if run not in gone]
            if not groups[tokens]:
                del groups[tokens]
        for run in gone:
            self.shares.take(run.caller, -run.size)
