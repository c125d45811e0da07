"""What became of each request."""

from enum import StrEnum
from typing import NamedTuple

__all__ = ["ERRORS", "WAITED", "Kind", "Outcome", "kind_of"]


class Kind(StrEnum):
    """How a request ended."""

    #: 200, with a number of tokens.
    OK = "ok"
    #: 429: over the function's concurrency, or over a server's limits.
    THROTTLED = "throttled"
    #: Another status below 500: the signature, the permission or the request is wrong.
    REFUSED = "refused"
    #: A status from 500 up, or a 200 whose body is no answer.
    FAILED = "failed"
    #: No answer within the time limit.
    TIMEOUT = "timeout"
    #: No connection, or it broke.
    UNREACHABLE = "unreachable"
    #: The test ended before the answer.
    UNANSWERED = "unanswered"
    #: All connections were in use from when it was due until the test ended.
    UNSENT = "unsent"


#: These are errors. A throttled request is a finding of the test, and an unanswered one its end.
ERRORS = (Kind.REFUSED, Kind.FAILED, Kind.TIMEOUT, Kind.UNREACHABLE)
#: Whose caller waited for a vector all the time: the requests of the latencies. A refusal comes
#: fast and would make them look better.
WAITED = (Kind.OK, Kind.TIMEOUT, Kind.UNANSWERED, Kind.UNSENT)


class Outcome(NamedTuple):
    """One request; times in seconds from the beginning of the test."""

    kind: Kind
    #: The HTTP status; 0 without one.
    status: int
    #: When it was due by the schedule.
    due: float
    #: When the generator came to it: later than due if the generator was busy.
    taken: float
    sent: float
    ended: float
    #: Tokens that were asked for, and tokens that the endpoint counted (0 without an answer).
    asked: int
    counted: int
    cold: bool
    #: Whether all connections were in use when the generator came to it.
    waited: bool = False

    @property
    def latency(self) -> float:
        """Seconds from when it was due to its end."""
        return self.ended - self.due

    @property
    def service(self) -> float:
        """Seconds from when it was sent to its end."""
        return self.ended - self.sent


def kind_of(status: int) -> Kind:
    """Return the kind of an answer by its status."""
    if status == 200:
        return Kind.OK
    if status == 429:
        return Kind.THROTTLED
    return Kind.FAILED if status >= 500 else Kind.REFUSED
