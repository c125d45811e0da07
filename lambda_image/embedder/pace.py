"""Predicts how long a run of the model takes, from comparable runs that were measured.

One slow run says little: the first run of an environment reads its pages over the network, and a
busy host can delay any run. So a prediction needs several comparable runs, and it is their median.
"""

from typing import NamedTuple

__all__ = ["Pace"]

#: Runs that are remembered.
_REMEMBERED = 32
#: Comparable runs that a prediction needs, and the most that it uses, newest first.
_EVIDENCE = 3
_MOST_EVIDENCE = 9
#: A run is comparable up to this ratio of the two sizes: beyond it, the time per token differs by
#: more than the prediction allows (see `planning.TOKEN_BUDGET`).
_COMPARABLE = 2


class _Measured(NamedTuple):
    tokens: int
    seconds: float


class Pace:
    """The last measured runs."""

    def __init__(self) -> None:
        self._runs: list[_Measured] = []

    def measured(self, tokens: int, seconds: float) -> None:
        """Add a run of `tokens` tokens, padding included."""
        self._runs.append(_Measured(tokens, seconds))
        del self._runs[:-_REMEMBERED]

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
