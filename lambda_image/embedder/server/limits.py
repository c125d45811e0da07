"""Requests and tokens per minute of each caller, and OpenAI's headers about them.

Each limit is a token bucket: it holds a minute's amount, and is refilled continuously. The number
of a request's tokens is known only when it has been tokenized, so an estimate is taken beforehand
and corrected afterwards. A request is let in while its caller has anything left: it can overrun a
limit, and what it took too much is missing afterwards.

Each process counts by itself: behind a load balancer, a caller has its limits on each task.

Headers: https://platform.openai.com/docs/guides/rate-limits
"""

import math
import time
from collections.abc import Callable, Mapping

from embedder.core.errors import RateLimitedError
from embedder.server.exchange import Caller

__all__ = ["Limits", "format_reset"]


class _Bucket:
    """What is left of a limit; below zero after a request that overran it."""

    __slots__ = ("left", "limit", "updated")

    def __init__(self, limit: int, now: float) -> None:
        self.limit = limit
        self.left = float(limit)
        self.updated = now

    def refill(self, now: float) -> None:
        self.left = min(self.limit, self.left + (now - self.updated) * self.limit / 60)
        self.updated = now

    def seconds_until(self, amount: float) -> float:
        return max(0.0, (amount - self.left) * 60 / self.limit)


class Limits:
    """What each caller has left. Not thread-safe: it belongs to the event loop.

    Args:
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: By the caller's name and the kind of limit.
        self._buckets: dict[tuple[str, str], _Bucket] = {}

    def admit(self, caller: Caller, *, tokens: int) -> Mapping[str, str]:
        """Take a request and its estimated tokens off its caller's limits.

        Returns:
            OpenAI's headers about each limit that the caller has.

        Raises:
            RateLimitedError: A limit is used up.
        """
        buckets = self._of(caller)
        # A full bucket has at least one, so none refuses for ever.
        empty = {kind: bucket for kind, bucket in buckets.items() if bucket.left < 1}
        if empty:
            wait = max(bucket.seconds_until(1) for bucket in empty.values())
            limits = " and ".join(f"{bucket.limit} {kind}" for kind, bucket in empty.items())
            raise RateLimitedError(
                f'The key "{caller.name}" has used up its {limits} per minute. Try again in '
                f"{format_reset(wait)}.",
                headers={"retry-after": str(max(1, math.ceil(wait))), **_headers(buckets)},
            )
        if "requests" in buckets:
            buckets["requests"].left -= 1
        if "tokens" in buckets:
            buckets["tokens"].left -= _capped(tokens, buckets["tokens"])
        return _headers(buckets)

    def settle(self, caller: Caller, *, estimated: int, tokens: int) -> Mapping[str, str]:
        """Replace the estimate of a request by the tokens that it had; 0 if none was computed.

        Returns:
            OpenAI's headers about each limit that the caller has.
        """
        buckets = self._of(caller)
        if "tokens" in buckets:
            bucket = buckets["tokens"]
            bucket.left = min(bucket.limit, bucket.left + _capped(estimated, bucket) - tokens)
        return _headers(buckets)

    def _of(self, caller: Caller) -> dict[str, _Bucket]:
        now = self._clock()
        buckets = {}
        for kind, limit in (
            ("requests", caller.requests_per_minute),
            ("tokens", caller.tokens_per_minute),
        ):
            if limit is None:
                continue
            bucket = self._buckets.get((caller.name, kind))
            # A caller whose limit was changed begins anew.
            if bucket is None or bucket.limit != limit:
                bucket = self._buckets[caller.name, kind] = _Bucket(limit, now)
            bucket.refill(now)
            buckets[kind] = bucket
        return buckets


def format_reset(seconds: float) -> str:
    """Format a duration as OpenAI's headers do: `0s`, `12ms`, `1.5s`, `6m0s`, `1h0m0s`."""
    milliseconds = math.ceil(seconds * 1000)
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest / 1000:g}s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def _capped(estimate: int, bucket: _Bucket) -> int:
    """Return an estimate, but never more than a minute's amount: it may be far too high."""
    return min(estimate, bucket.limit)


def _headers(buckets: dict[str, _Bucket]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for kind, bucket in buckets.items():
        headers |= {
            f"x-ratelimit-limit-{kind}": str(bucket.limit),
            f"x-ratelimit-remaining-{kind}": str(max(0, math.floor(bucket.left))),
            f"x-ratelimit-reset-{kind}": format_reset(bucket.seconds_until(bucket.limit)),
        }
    return headers
