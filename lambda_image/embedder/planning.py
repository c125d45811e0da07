"""Decides which inputs share a run of the model.

Inputs of one padded length share runs, and an input's padded length depends only on its own length.
So the model does the same arithmetic for a text whether it comes alone or with a thousand others,
and gives the same vector to the last bit. (Padding up to the longest of a batch would not: sums of
floats change with their number, and where a sum decides how an activation is rounded to int8, a
change in the last bit becomes one in the third decimal.)
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["TOKEN_BUDGET", "Run", "padded_length", "plan"]

#: Tokens of one run, padding included. On the replica of EmbeddingGemma a token costs 1.22 ms in a
#: run of 8 tokens, 0.45 in one of 64, 0.38 in one of 256 or 512, and 0.42 and more from 1,024 on,
#: where a layer's output no longer fits the cache.
TOKEN_BUDGET = 512

#: Pairs of a length in tokens and the multiple to which lengths up to it are rounded up. Short
#: texts gain most from batching and waste least on padding; a text of over 256 tokens fills a run.
_ROUNDING = ((64, 4), (256, 8))


class Run(NamedTuple):
    """Inputs that are embedded together."""

    #: Positions of the inputs, in the order in which they came.
    positions: list[int]
    #: Tokens of each, padding included.
    tokens: int


def padded_length(length: int, limit: int) -> int:
    """Return how many tokens an input is padded to: at least its own, at most the model's limit."""
    for most, multiple in _ROUNDING:
        if length <= most:
            return max(length, min(-(-length // multiple) * multiple, limit))
    return length


def plan(lengths: Sequence[int], *, limit: int, budget: int = TOKEN_BUDGET) -> list[Run]:
    """Group inputs into runs.

    Args:
        lengths: tokens of each input, all positive.
        limit: the most tokens that the model takes.
        budget: the most tokens of a run, padding included; one input is always allowed.

    Returns:
        The runs, longest inputs first. Every position is in exactly one run, and the inputs
        of one padded length are spread evenly.
    """
    groups: dict[int, list[int]] = {}
    for position, length in enumerate(lengths):
        groups.setdefault(padded_length(length, limit), []).append(position)
    runs = []
    for tokens, positions in sorted(groups.items(), reverse=True):
        count = -(-len(positions) // max(1, budget // tokens))
        bounds = [len(positions) * part // count for part in range(count + 1)]
        runs += [Run(positions[start:stop], tokens) for start, stop in itertools.pairwise(bounds)]
    return runs
