"""The base of models that give scores: the reranker, of pairs, and the classifier, of texts."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from embedder.core import errors
from embedder.core.embedding_request import Embeddings
from embedder.core.loaded_model import LoadedModel
from embedder.core.model_runner import SegmentRunner

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt


class Scores(NamedTuple):
    """The scores of one request.

    `scores` is float32 [inputs, labels], or of a reranker with one label [passages], in the order
    of the request. `work` has the tokens of each input, the timings and the score space, for
    records and headers; its `vectors` are the logits, float32 [inputs, labels].
    """

    scores: npt.NDArray[np.float32]
    work: Embeddings

    def best_first(self) -> list[tuple[int, float]]:
        """Return each passage's place and score, the best first; of equal ones, the first one.

        The logit decides: from 17 on, the sigmoid of all logits is 1 in float32.
        """
        order = np.argsort(-self.work.vectors[:, 0], kind="stable").tolist()
        return [(position, float(self.scores[position])) for position in order]


class Scorer(LoadedModel):
    """A model of which the rows are logits, a column a label.

    An input's scores do not depend on the inputs beside it, to the last bit.
    """

    runner_type = SegmentRunner

    def _configure(self, truncate: str, max_characters: int) -> None:
        scoring = self.manifest.scoring
        assert scoring is not None  # noqa: S101 - for mypy: the task says so
        self.scoring = scoring
        self.max_tokens, self.max_characters = self.manifest.max_tokens, max_characters
        self.truncate = truncate

    def activated(
        self, logits: npt.NDArray[np.float32], activation: str | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the scores for logits, both float32 [inputs, labels].

        `activation` is one of `ScoringEntry.activation`, by default the model's own.
        """
        activation = activation or self.scoring.activation
        if activation == "identity":
            return logits
        # One by one: numpy's loops may round a number differently at another place of an array.
        rows = logits.tolist()
        if activation == "softmax":
            shares = [_softmax(row) for row in rows]
        else:
            shares = [[_sigmoid(logit) for logit in row] for row in rows]
        return np.array(shares, np.float32).reshape(logits.shape)

    def _scored(
        self,
        inputs: Sequence[tuple[bytes, int]],
        name: str,
        *,
        raw: bool,
        characters: int,
        started: float,
        deadline: float | None,
    ) -> Scores:
        """Score inputs as `packed_pair` makes them; see `LoadedModel._compute` for the others.

        `name` is that of the inputs in an error.
        """
        packed = [ids for ids, _ in inputs]
        lengths = [length for _, length in inputs]
        try:
            work = self._compute(
                packed, lengths, characters=characters, started=started, deadline=deadline
            )
        except errors.InferenceError as error:
            if error.place is None:
                raise
            raise errors.InferenceError(
                f"The model gave no finite score for {name}[{error.place}]."
            ) from error
        scores = work.vectors if raw else self.activated(work.vectors)
        return Scores(scores, work._replace(vector_space=self.manifest.space))


def packed_pair(ids: Sequence[int], *, second: int = 0, second_type: int = 0) -> tuple[bytes, int]:
    """Return an input as a `SegmentRunner` takes it, and its number of tokens.

    The last `second` tokens are of the second text, and have its token type.
    """
    types = b"\1" * (len(ids) - second) + bytes([1 + second_type]) * second
    return array("i", ids).tobytes() + types, len(ids)


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """Return how many tokens of each of two texts are kept, as Hugging Face's `tokenizers` does.

    The longer text is cut first, down to the shorter one; then both are halves of the room, of
    which the longer text (the second, if they are equal) gets the odd token.
    """
    short, long = min(first, second), max(first, second)
    long = short if short > room else max(short, room - short)
    if short + long > room:
        short = room // 2
        long = short + room % 2
    return (long, short) if first > second else (short, long)


def _sigmoid(logit: float) -> float:
    # Of a large negative number, exp(-x) would be over the largest float.
    if logit < 0:
        power = math.exp(logit)
        return power / (1 + power)
    return 1 / (1 + math.exp(-logit))


def _softmax(logits: list[float]) -> list[float]:
    largest = max(logits)
    powers = [math.exp(logit - largest) for logit in logits]
    total = sum(powers)
    return [power / total for power in powers]
