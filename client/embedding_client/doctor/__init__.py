"""`embed doctor`: check a deployed endpoint from outside, and print what to do.

Each module has the checks of one subject. `Snapshot` reads everything once, with timeouts. Here is
what a check returns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

#: What to do without valid credentials of AWS.
LOGIN = (
    "log in (`aws sso login`), choose a profile (--profile or AWS_PROFILE), or set "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)


class State(StrEnum):
    """The state of a check."""

    OK = "ok"
    #: It works, but the operator should look at it.
    WARNING = "warning"
    #: Callers are refused or answered wrongly, or the next release or alarm will fail.
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check: a phrase, advice, and its numbers and names for programs."""

    state: State
    found: str
    advice: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


class SkippedError(Exception):
    """A check cannot run, or has nothing to check; the message gives the reason."""


def ok(found: str, **data: Any) -> CheckResult:
    """Return a result with nothing to do."""
    return CheckResult(State.OK, found, data=data)


def warning(found: str, advice: str, **data: Any) -> CheckResult:
    """Return a result that the operator should look at."""
    return CheckResult(State.WARNING, found, advice, data)


def failed(found: str, advice: str, **data: Any) -> CheckResult:
    """Return a result that makes the command fail."""
    return CheckResult(State.FAILED, found, advice, data)


def skipped(reason: str) -> CheckResult:
    """Return the result of a check that did not run."""
    return CheckResult(State.SKIPPED, reason)


def ago(span: timedelta) -> str:
    """Return how long ago something was, in its largest unit."""
    seconds = max(0, int(span.total_seconds()))
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = seconds // length
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"
