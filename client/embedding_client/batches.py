"""Texts in any number → requests that fit.

Lambda takes 6 MB a request, in the form of an event in which each quote and backslash of the body
takes two bytes, and gives 6 MB back. A request should also be done well before the function's
timeout.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Batch", "BatchLimits", "batches", "estimated_tokens", "halves"]


@dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """The most that one request holds.

    Attributes:
        texts: how many; 256 vectors of 3072 float32 in base64 take 4.2 MB.
        tokens: of all texts, as `estimated_tokens` counts them: 16,000 take some ten seconds on one
            vCPU.
        body: bytes of the body as they count in the event.
    """

    texts: int = 256
    tokens: int = 16_384
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
    start, group, tokens, body = 0, list[str](), 0, 0
    for text in texts:
        size, length = _event_bytes(text), estimated_tokens(text)
        if group and (
            len(group) >= limits.texts
            or tokens + length > limits.tokens
            or body + size > limits.body
        ):
            yield Batch(start=start, texts=group)
            start, group, tokens, body = start + len(group), [], 0, 0
        group.append(text)
        tokens += length
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


def estimated_tokens(text: str) -> int:
    """Guesses a text's tokens without the model's tokenizer: one for four bytes of UTF-8.

    English prose has that; MiniLM takes one for 3.2 bytes of the texts of many scripts that the
    compiler measures fidelity on. What the guess lets through and the endpoint does not take goes
    in halves.
    """
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def _event_bytes(text: str) -> int:
    """How many bytes a text takes in the event: JSON within JSON, both with ASCII only at worst."""
    return len(json.dumps(json.dumps(text))) + 1
