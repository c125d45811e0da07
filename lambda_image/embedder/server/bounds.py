"""The bounds of the server's work, which its callers share: what makes the server answer 429."""

import math
from typing import NamedTuple

from embedder.core.errors import OverloadedError

#: Tokens that say something: fewer are the first runs, which also read the weights.
_EVIDENCE = 1024
#: Tokens after which older runs count half: some seconds of a busy worker.
_HALF_LIFE = 1 << 14


class Bounds(NamedTuple):
    """The most work that may wait."""

    #: Tokens, padding included.
    tokens: int
    #: Seconds that all workers together take for it, as measured.
    seconds: float

    def most(self, seconds_per_token: float | None) -> int:
        """Return the most tokens; of all workers together, None if not known yet."""
        if not seconds_per_token:
            return self.tokens
        return min(self.tokens, int(self.seconds / seconds_per_token))


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


class ThroughputEstimator:
    """Measures how long one worker takes for a token, padding included."""

    def __init__(self) -> None:
        self._tokens = self._seconds = 0.0

    def add(self, tokens: int, seconds: float) -> None:
        """Add a run."""
        self._tokens += tokens
        self._seconds += seconds
        if self._tokens > 2 * _HALF_LIFE:
            self._tokens /= 2
            self._seconds /= 2

    @property
    def seconds_per_token(self) -> float | None:
        """The mean of the last runs; None before enough was measured."""
        return self._seconds / self._tokens if self._tokens >= _EVIDENCE else None
