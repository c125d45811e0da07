"""A way to serve, as the line items of its monthly bill."""

from dataclasses import dataclass

from embedding_kit.prices import LineItem

__all__ = ["Option"]


@dataclass(frozen=True, slots=True)
class Option:
    """One way to serve the traffic."""

    name: str
    items: tuple[LineItem, ...]
    #: `lambda`, `server` or `hosted`.
    kind: str

    @property
    def usd(self) -> float:
        """US dollars a month."""
        return sum(item.usd for item in self.items)
