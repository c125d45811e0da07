"""Times in words."""

from datetime import timedelta

__all__ = ["ago", "milliseconds"]


def ago(span: timedelta) -> str:
    """Return how long ago something was, in its largest unit."""
    seconds = max(0, int(span.total_seconds()))
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = seconds // length
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"


def milliseconds(value: float) -> str:
    """Return milliseconds as a whole number, or as less than one."""
    return "<1" if value < 1 else f"{value:,.0f}"
