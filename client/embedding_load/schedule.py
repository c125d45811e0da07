"""When requests are due, and how many tokens each has. Pure: one seed gives one plan."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from embedding_costs.traffic import SHAPES, Load

__all__ = ["Plan", "arrivals", "lengths", "plan"]

#: A stretch of one rate is drawn in pieces of so many seconds, until enough arrivals are drawn.
_PIECE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The requests of a test.

    Attributes:
        due: Rising times in seconds from the beginning; float64 of shape (requests,).
        tokens: Tokens to ask for; int64 of the same shape.
        rate: The mean number of requests a second.
        peak: The highest rate of the shape.
        shape: The shape's name.
        range: The fewest and the most tokens.
        seconds: The length of the test.
        capped: Whether the limit of requests ends the plan before its time.
    """

    due: npt.NDArray[np.float64]
    tokens: npt.NDArray[np.int64]
    rate: float
    peak: float
    shape: str
    range: tuple[int, int]
    seconds: float
    capped: bool


def plan(
    *, rate: float, shape: str, seconds: float, tokens: tuple[int, int], most: int, seed: int
) -> Plan:
    """Draw a plan.

    Args:
        rate: The mean number of requests a second.
        shape: A name of `embedding_costs.traffic.SHAPES`. One period of it takes the whole test: a
            diurnal test is a day in miniature, a bursty one an hour.
        seconds: The length of the test.
        tokens: The fewest and the most tokens of a request.
        most: The most requests.
        seed: The seed.
    """
    loads = SHAPES[shape]
    due = arrivals(loads, rate=rate, seconds=seconds, most=most + 1, seed=seed)
    capped = len(due) > most
    due = due[:most]
    return Plan(
        due=due,
        tokens=lengths(*tokens, count=len(due), seed=seed),
        rate=rate,
        peak=rate * max(load.multiple for load in loads),
        shape=shape,
        range=tokens,
        seconds=seconds,
        capped=capped,
    )


def arrivals(
    loads: Sequence[Load], *, rate: float, seconds: float, most: int, seed: int
) -> npt.NDArray[np.float64]:
    """Draw Poisson arrivals: callers that know nothing of each other.

    Args:
        loads: Stretches of one rate each, in their order; their shares sum to 1.
        rate: The mean rate, in requests a second.
        seconds: The length of all stretches.
        most: The most arrivals; later ones are left out.
        seed: The seed.

    Returns:
        Rising times in [0, seconds), float64.
    """
    random = np.random.default_rng(seed)
    drawn: list[npt.NDArray[np.float64]] = []
    count = 0
    for begin, end, multiple in _pieces(loads, seconds):
        number = random.poisson(rate * multiple * (end - begin))
        drawn.append(np.sort(random.uniform(begin, end, number)))
        count += number
        if count >= most:
            break
    return np.concatenate(drawn)[:most] if drawn else np.empty(0)


def lengths(low: int, high: int, *, count: int, seed: int) -> npt.NDArray[np.int64]:
    """Draw token counts whose logarithm is uniform: many short texts, a few long ones.

    Args:
        low: The fewest tokens, from 1 up.
        high: The most tokens.
        count: How many to draw.
        seed: The seed.

    Returns:
        Whole numbers from `low` to `high`; int64 of shape (count,).
    """
    # A seed of its own, so that the lengths do not depend on the number of arrivals drawn.
    random = np.random.default_rng([seed, 1])
    drawn = np.exp(random.uniform(np.log(low), np.log(high + 1), count))
    return np.clip(drawn.astype(np.int64), low, high)


def _pieces(loads: Sequence[Load], seconds: float) -> Iterator[tuple[float, float, float]]:
    """Yield begin, end and multiple of each stretch, cut into pieces."""
    begin = 0.0
    for load in loads:
        last = begin + load.share * seconds
        while last - begin > _PIECE_SECONDS:
            yield begin, begin + _PIECE_SECONDS, load.multiple
            begin += _PIECE_SECONDS
        yield begin, last, load.multiple
        begin = last
