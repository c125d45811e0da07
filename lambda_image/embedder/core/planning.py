"""Which inputs share a run of the model, and how long a run takes.

Inputs of one padded length share runs, and an input's padded length depends only on its own length.
So the model does the same arithmetic for a text whether it comes alone or with a thousand others,
and gives the same vector to the last bit. (Padding up to the longest of a batch would not: sums of
floats change with their number, and where a sum decides how an activation is rounded to int8, a
change in the last bit becomes one in the third decimal.)

One slow run says little: the first run of an environment reads its pages over the network, and a
busy host can delay any run. So the prediction of a run's time needs several comparable runs, and it
is their median.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

#: Tokens of one run, padding included. On the replica of EmbeddingGemma a token costs 1.22 ms in a
#: run of 8 tokens, 0.45 in one of 64, 0.38 in one of 256 or 512, and 0.42 and more from 1,024 on,
#: where a layer's output no longer fits the cache.
TOKEN_BUDGET = 512

#: Pairs of a length in tokens and the multiple to which lengths up to it are rounded up. Short
#: texts gain most from batching and waste least on padding; a text of over 256 tokens fills a run.
_ROUNDING = ((64, 4), (256, 8))

#: Runs that are remembered.
_REMEMBERED = 32
#: Comparable runs that a prediction needs, and the most that it uses, newest first.
_EVIDENCE = 3
_MOST_EVIDENCE = 9
#: A run is comparable up to this ratio of the two sizes: beyond it, the time per token differs by
#: more than the prediction allows (see `TOKEN_BUDGET`).
_COMPARABLE = 2


class PlannedRun(NamedTuple):
    """Inputs that are embedded together."""

    #: Positions of the inputs, in the order in which they came.
    positions: list[int]
    #: Number of tokens of each input, padding included.
    tokens: int


def padded_length(length: int, limit: int) -> int:
    """Return how many tokens an input is padded to: at least its own, at most the model's limit."""
    for longest, multiple in _ROUNDING:
        if length <= longest:
            return max(length, min(-(-length // multiple) * multiple, limit))
    return length


def plan(lengths: Sequence[int], *, limit: int, budget: int = TOKEN_BUDGET) -> list[PlannedRun]:
    """Group inputs of these lengths, in tokens, into runs of up to `budget` tokens.

    A run may always have one input. Returns the runs, longest inputs first. Every position is in
    exactly one run, and the inputs of one padded length are spread evenly.
    """
    padded = {length: padded_length(length, limit) for length in set(lengths)}
    groups: dict[int, list[int]] = {}
    for position, length in enumerate(lengths):
        groups.setdefault(padded[length], []).append(position)
    runs = []
    for tokens, positions in sorted(groups.items(), reverse=True):
        count = -(-len(positions) // max(1, budget // tokens))
        bounds = [len(positions) * index // count for index in range(count + 1)]
        runs += [
            PlannedRun(positions[start:stop], tokens) for start, stop in itertools.pairwise(bounds)
        ]
    return runs


class _Measured(NamedTuple):
    tokens: int
    seconds: float


class RuntimeEstimator:
    """Predicts how long a run takes, from the last measured ones.

    Threads may share it: the list is replaced and never changed, so that a reader always has a
    whole one. Of two runs that end at the same moment, one may be lost.
    """

    def __init__(self) -> None:
        self._runs: list[_Measured] = []

    def add(self, tokens: int, seconds: float) -> None:
        """Add a run of `tokens` tokens, padding included."""
        self._runs = [*self._runs[1 - _REMEMBERED :], _Measured(tokens, seconds)]

    def seconds(self, tokens: int) -> float | None:
        """Predict the time of a run; None if there are too few comparable runs to say."""
        comparable = [run for run in self._runs if _comparable(run, tokens)][-_MOST_EVIDENCE:]
        if len(comparable) < _EVIDENCE:
            return None
        rates = sorted(run.seconds / run.tokens for run in comparable)
        return tokens * rates[len(rates) // 2]

    def forget(self, tokens: int) -> None:
        """Drop the runs that a prediction for this size uses.

        After a refusal nothing is measured, so nothing would correct a prediction that was wrong.
        Without its evidence the next run of this size is tried, and measured.
        """
        self._runs = [run for run in self._runs if not _comparable(run, tokens)]


def _comparable(run: _Measured, tokens: int) -> bool:
    return run.tokens <= _COMPARABLE * tokens and tokens <= _COMPARABLE * run.tokens
