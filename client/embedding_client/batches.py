"""Splits any number of texts into requests that fit Lambda's limits.

A request and a response have at most 6 MB each. The limit of a request applies to the event, in
which the body is a JSON string: each quote and backslash takes two bytes. A request should also end
well before the function's timeout.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Batch", "BatchLimits", "batches", "estimated_tokens", "halves"]


@dataclass(frozen=True, kw_only=True)
class BatchLimits:
    """The limits of one request.

    Attributes:
        texts: The maximum number of texts. 256 float32 vectors of 3072 dimensions take 4.2 MB in
            base64.
        tokens: The maximum number of tokens, by `estimated_tokens`. 16,000 tokens take about ten
            seconds on one vCPU.
        body: The maximum number of bytes that the body takes in the event.
    """

    texts: int = 256
    tokens: int = 16_384
    body: int = 6_000_000


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The texts of one request.

    Attributes:
        start: The position of the first text in the call.
        texts: The texts, in order.
    """

    start: int
    texts: Sequence[str]


def batches(texts: Iterable[str], limits: BatchLimits) -> Iterator[Batch]:
    """Group texts in order. A text that exceeds a limit by itself gets its own batch."""
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
    """Split a batch of at least two texts."""
    middle = len(batch.texts) // 2
    return (
        Batch(start=batch.start, texts=batch.texts[:middle]),
        Batch(start=batch.start + middle, texts=batch.texts[middle:]),
    )


def estimated_tokens(text: str) -> int:
    """Estimate the number of tokens without the tokenizer, as one for each four bytes of UTF-8.

    This ratio fits English prose. The multilingual texts that the compiler measures fidelity on
    have 3.2 bytes per token with MiniLM's tokenizer. The client splits a batch in half if the
    endpoint rejects it as too large.
    """
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def _event_bytes(text: str) -> int:
    """Return the maximum number of bytes that a text takes in the event: JSON in JSON, in ASCII."""
    return len(json.dumps(json.dumps(text))) + 1
