"""The bounds of the queue, in tokens and in seconds of work: what makes the server answer 429."""

import math
from typing import NamedTuple

from embedder.errors import OverloadedError

__all__ = ["Bounds", "overloaded"]


class Bounds(NamedTuple):
    """The most work that may wait."""

    #: Tokens, padding included.
    tokens: int
    #: Seconds that all workers together take for it, by the measured pace.
    seconds: float

    def check(self, waiting: int, more: int, seconds_per_token: float | None) -> None:
        """Refuse a request if its tokens do not fit beside those that wait.

        A request counts with half of the bound at most. So a list that is larger than the bound is
        taken as soon as the queue is half empty, and not only when nothing waits.

        Args:
            waiting: tokens that wait.
            more: tokens of the request, however many inputs they are of.
            seconds_per_token: of all workers together; None if it is not known yet.

        Raises:
            OverloadedError: with `Retry-After`: when all that waits now is done.
        """
        most = self.tokens
        if seconds_per_token:
            most = min(most, int(self.seconds / seconds_per_token))
        if waiting == 0 or waiting + min(more, most // 2) <= most:
            return
        raise overloaded(
            f"The server has too much to do: {waiting} tokens wait for the model, and at most "
            f"{most} may.",
            waiting * (seconds_per_token or 0.0),
        )


def overloaded(problem: str, seconds: float) -> OverloadedError:
    """Return the error for a request that may be sent again after this time."""
    retry_after = max(1, math.ceil(seconds))
    return OverloadedError(
        f"{problem} Send the request again in {retry_after} s.",
        headers={"retry-after": str(retry_after)},
    )
