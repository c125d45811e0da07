"""The requests of a load test: when each is due, and its text. One seed gives one plan."""

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from embedding_client.protocol import embed_body

__all__ = ["Plan", "Texts", "make_plan"]

#: Words that are one token each in the usual vocabularies (WordPiece, SentencePiece, BPE).
_WORDS = Path(__file__).with_name("words.txt").read_text("utf-8").split()
#: Tokens that a model adds at the beginning and at the end of a text.
_ADDED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The requests of a test.

    Attributes:
        due: Rising times in seconds from the beginning; float64 of shape (requests,).
        tokens: The tokens of each text; int64 of the same shape.
        seconds: The length of the test.
        capped: Whether the limit of requests ends the plan before its time.
    """

    due: npt.NDArray[np.float64]
    tokens: npt.NDArray[np.int64]
    seconds: float
    capped: bool


def make_plan(
    *, rate: float, seconds: float, tokens: tuple[int, int], most: int, seed: int
) -> Plan:
    """Draw a plan: Poisson arrivals, as of callers that know nothing of each other.

    Args:
        rate: The mean number of requests a second.
        seconds: The length of the test.
        tokens: The fewest and the most tokens of a text. The logarithm of the numbers drawn is
            uniform: many short texts, a few long ones.
        most: The most requests.
        seed: The seed.
    """
    # Separate seeds, so that the lengths do not depend on the number of arrivals.
    arrivals, lengths = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    due = np.cumsum(arrivals.exponential(1 / rate, _enough(rate * seconds, most)))
    due = due[due < seconds]
    low, high = tokens
    drawn = np.exp(lengths.uniform(np.log(low), np.log(high + 1), len(due)))
    return Plan(
        due=due[:most],
        tokens=np.clip(drawn.astype(np.int64), low, high)[:most],
        seconds=seconds,
        capped=len(due) > most,
    )


def _enough(expected: float, most: int) -> int:
    """Return a number of arrivals that a test exceeds with a probability below 1e-20."""
    return int(min(expected + 10 * expected**0.5 + 50, most + 1))


class Texts:
    """Makes the bodies of requests from common English words; one seed gives one sequence."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  (texts, not secrets)

    def body(self, tokens: int) -> bytes:
        """Return the body of `POST /` for one text of about so many tokens."""
        words = self._random.choices(_WORDS, k=max(1, tokens - _ADDED))
        return embed_body([" ".join(words)], {})
