"""When and after how long a request is sent again.

Full jitter: a random time between nothing and an exponentially growing ceiling, so that clients
that failed together do not come back together.
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
    """How often and how patiently to try.

    Attributes:
        attempts: how many times a request is sent at the most.
        base: seconds; the ceiling of the first wait, doubled with each.
        ceiling: seconds; no ceiling grows beyond it.
        longest_wait: seconds; a `Retry-After` beyond it is not waited for, the error is raised.
    """

    attempts: int = 6
    base: float = 0.25
    ceiling: float = 20.0
    longest_wait: float = 120.0

    def retries(self, status: int) -> bool:
        """Tells whether this status may go away by itself."""
        return status in _RETRIED

    def wait(self, attempt: int, headers: Mapping[str, str] | None = None) -> float | None:
        """Returns the seconds to wait after a failed attempt, or None to give up.

        Args:
            attempt: how many were made, 1 or more.
            headers: of the answer, for its `Retry-After`.
        """
        if attempt >= self.attempts:
            return None
        jitter = random.uniform(0, min(self.ceiling, self.base * 2 ** (attempt - 1)))  # noqa: S311
        asked = _retry_after(headers or {})
        if asked > self.longest_wait:
            return None
        return asked + jitter


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds, from either form of the header (RFC 9110, 10.2.3); 0 where there is none."""
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
