"""What a check before a deploy has found."""

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A fact to report before a deploy; `stops` if the deploy would certainly fail."""

    text: str
    stops: bool = False
