"""What a check found, in which state that is, and what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["Finding", "SkippedError", "State", "ill", "ok", "skipped", "warning"]


class State(StrEnum):
    """How well something is.

    Attributes:
        OK: Nothing to do.
        WARNING: It works, but the operator should look at it.
        ILL: Callers are refused or answered wrongly, or the next release or alarm will fail.
        SKIPPED: It was not checked, for the reason in the finding.
    """

    OK = "ok"
    WARNING = "warning"
    ILL = "ill"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    Attributes:
        state: How well it is.
        found: What was found, as a phrase.
        advice: What to do; empty if there is nothing to do.
        data: The numbers and names in `found`, for programs.
    """

    state: State
    found: str
    advice: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


class SkippedError(Exception):
    """A check cannot run, or has nothing to check; the message gives the reason."""


def ok(found: str, **data: Any) -> Finding:
    """Return a finding with nothing to do."""
    return Finding(State.OK, found, data=data)


def warning(found: str, advice: str, **data: Any) -> Finding:
    """Return a finding that the operator should look at."""
    return Finding(State.WARNING, found, advice, data)


def ill(found: str, advice: str, **data: Any) -> Finding:
    """Return a finding that makes the command fail."""
    return Finding(State.ILL, found, advice, data)


def skipped(reason: str) -> Finding:
    """Return the finding of a check that did not run."""
    return Finding(State.SKIPPED, reason)
