"""Texts in any number → requests that fit.

Lambda takes 6 MB a request, in the form of an event in which each quote and backslash of the body
takes two bytes, and gives 6 MB back. A request should also be done well before the function's
timeout.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Batch", "BatchLimits", "batches", "halves"]


@dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """The most that one request holds.

    Attributes:
        texts: how many; 256 vectors of 3072 float32 in base64 take 4.2 MB.
        characters: of all texts; a stand-in for tokens (four characters each, as a rule) and with
            them for time: 16,000 tokens take some ten seconds on one vCPU.
        body: bytes of the body as they count in the event.
    """

    texts: int = 256
    characters: int = 65_536
    body: int = 6_000_000


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Texts of one request.

    Attributes:
        start: the position of the first among all.
        texts: in the order given.
    """

    start: int
    texts: Sequence[str]


def batches(texts: Iterable[str], limits: BatchLimits) -> Iterator[Batch]:
    """Groups texts in their order; a text over a limit of its own stands alone."""
    start, group, characters, body = 0, list[str](), 0, 0
    for text in texts:
        size = _event_bytes(text)
        if group and (
            len(group) >= limits.texts
            or characters + len(text) > limits.characters
            or body + size > limits.body
        ):
            yield Batch(start=start, texts=group)
            start, group, characters, body = start + len(group), [], 0, 0
        group.append(text)
        characters += len(text)
        body += size
    if group:
        yield Batch(start=start, texts=group)


def halves(batch: Batch) -> tuple[Batch, Batch]:
    """Splits a batch of two texts or more."""
    middle = len(batch.texts) // 2
    return (
        Batch(start=batch.start, texts=batch.texts[:middle]),
        Batch(start=batch.start + middle, texts=batch.texts[middle:]),
    )


def _event_bytes(text: str) -> int:
    """How many bytes a text takes in the event: JSON within JSON, both with ASCII only at worst."""
    return len(json.dumps(json.dumps(text))) + 1
