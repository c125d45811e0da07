"""The requests that are measured: how many tokens they have, in how many texts."""

from dataclasses import dataclass

__all__ = ["Length", "Workload", "given_workload"]


@dataclass(frozen=True, slots=True)
class Length:
    """A length of requests."""

    #: Tokens of one request, special tokens included.
    tokens: int
    #: The share of the requests that it represents.
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The environment's requests."""

    #: By rising tokens; the shares add up to 1.
    lengths: tuple[Length, ...]
    #: Texts of one request.
    texts: int
    #: Where the lengths come from, in words.
    source: str


def given_workload(tokens: tuple[int, ...], *, texts: int) -> Workload:
    """Return requests of these lengths, each as frequent as the others.

    Args:
        tokens: Tokens of a request.
        texts: Texts of a request.
    """
    distinct = sorted(set(tokens))
    return Workload(
        lengths=tuple(Length(count, 1 / len(distinct)) for count in distinct),
        texts=texts,
        source="--tokens",
    )
