"""The retry policy: which requests to send again, and after how many seconds.

The delay has full jitter: a random time up to a ceiling that grows exponentially. Clients that
failed at the same time then do not retry at the same time.
https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

__all__ = ["RetryPolicy"]

_RETRIED = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """The number of attempts, and the delays between them.

    Attributes:
        attempts: The maximum number of times that a request is sent.
        base: Seconds; the ceiling of the first delay. It doubles with each attempt.
        ceiling: Seconds; the maximum of the ceiling.
        longest_wait: Seconds; the maximum `Retry-After` to wait for. With a longer one, the client
            raises the error.
    """

    attempts: int = 6
    base: float = 0.25
    ceiling: float = 20.0
    longest_wait: float = 120.0

    def retries(self, status: int) -> bool:
        """Return whether a response with this status is retried."""
        return status in _RETRIED

    def wait(self, attempt: int, headers: Mapping[str, str] | None = None) -> float | None:
        """Return the seconds to wait after a failed attempt, or None to give up.

        Args:
            attempt: The number of attempts so far, from 1.
            headers: The headers of the response, for `Retry-After`, and for `x-should-retry` as
                OpenAI's clients read it: a monthly quota is not over in a moment.
        """
        if attempt >= self.attempts or (headers or {}).get("x-should-retry") == "false":
            return None
        jitter = random.uniform(0, min(self.ceiling, self.base * 2 ** (attempt - 1)))  # noqa: S311  (not cryptography)
        requested = _retry_after(headers or {})
        if requested > self.longest_wait:
            return None
        return requested + jitter


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds of `Retry-After` in either form (RFC 9110, 10.2.3), or 0 without one."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return 0.0
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
