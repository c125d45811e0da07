"""The base of models that give scores: the reranker, of pairs, and the classifier, of texts.

Inputs to scores: tokenize each text once → pair → plan → run, equal inputs once.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from embedder.core import errors
from embedder.core.embedding_request import Embeddings
from embedder.core.loaded_model import LoadedModel
from embedder.core.model_runner import SegmentRunner

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt


_Cut = TypeVar("_Cut", str, list[int])
#: The most inputs of a request, as in Cohere's API.
MAX_INPUTS = 10_000


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
    #: The name of the inputs in an error.
    inputs: ClassVar[str] = "inputs"

    def _configure(self, truncate: str, max_characters: int) -> None:
        scoring = self.manifest.scoring
        assert scoring is not None  # noqa: S101 - for mypy: the task says so
        self.scoring = scoring
        self._pair_specials = len(scoring.before) + len(scoring.between) + len(scoring.after)
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

    def predict(
        self,
        inputs: Sequence[str | tuple[str, str]],
        *,
        raw: bool = False,
        truncate: str | None = None,
        deadline: float | None = None,
        **options: Any,
    ) -> Scores:
        """Score 1 to `MAX_INPUTS` inputs; the scores are float32 [inputs, labels].

        `raw` scores are logits, without the model's activation. `truncate` and more options are
        those of the kind of model; None takes the `truncate` of `load`. At the deadline, a
        `time.monotonic()`, the caller gives up.

        Raises:
            EmptyInputError: if there is no input, or a text has no tokens.
            BatchTooLargeError: if there are too many inputs.
            InputTooLongError: if an input is over the limits and must not be truncated.
            InvalidFieldError: if the model takes no such input.
            OutOfTimeError: see `Engine.embed_request`.
            InferenceError: if the model gave no finite score; the message names the input.

        An error about one input has its `position`.
        """
        started = time.perf_counter()
        if not inputs:
            raise errors.EmptyInputError("must have at least one input.", name=self.inputs)
        if len(inputs) > MAX_INPUTS:
            raise errors.BatchTooLargeError(
                f"At most {MAX_INPUTS} {self.inputs} are allowed in one request; found "
                f"{len(inputs)}.",
                field=self.inputs,
            )
        how = truncate or self.truncate
        ids: dict[tuple[int, str], list[int]] = {}
        packed, characters = [], 0
        for position, scored in enumerate(inputs):
            keys = tuple(enumerate((scored,) if isinstance(scored, str) else scored))
            for key in keys:
                characters += len(key[1])
                if key not in ids:
                    ids[key] = self._ids(*key, how, position, **options)
            packed.append(self._packed([ids[key] for key in keys], how, position))
        try:
            work = self._compute(
                [row for row, _ in packed],
                [length for _, length in packed],
                characters=characters,
                started=started,
                deadline=deadline,
            )
        except errors.InferenceError as error:
            if error.place is None:
                raise
            raise errors.InferenceError(
                f"The model gave no finite score for {self.inputs}[{error.place}]."
            ) from error
        scores = work.vectors if raw else self.activated(work.vectors)
        return Scores(scores, work._replace(vector_space=self.manifest.space))

    def _ids(
        self, _number: int, text: str, how: str, position: int, /, **_options: Any
    ) -> list[int]:
        """Return the ids of the first text of an input, number 0, or of the second of a pair."""
        return self._encode(text, how, position)

    def _packed(self, texts: list[list[int]], how: str, position: int) -> tuple[bytes, int]:
        """Return the ids of an input's texts as `packed_pair` does, cut to the limit."""
        raise NotImplementedError

    def _encode(self, text: str, how: str, position: int | None, *, prefix: str = "") -> list[int]:
        """Return a text's ids, with a template's prefix; only a query has no position."""
        name = "query" if position is None else f"{self.inputs}[{position}]"
        if len(text) > self.max_characters:
            if how == "refuse":
                raise errors.InputTooLongError(
                    f"has {len(text)} characters; at most {self.max_characters} are allowed.",
                    name=name,
                    position=position,
                )
            text = cut(text, self.max_characters, how)
        ids = self.tokenizer.encode(prefix + text)
        # With a template's prefix, a blank text has tokens too.
        if not text.strip() or not ids:
            raise errors.EmptyInputError(
                "must hold text; the tokenizer found no token in it.", name=name, position=position
            )
        return ids

    def _joined(self, first: Sequence[int], second: Sequence[int]) -> tuple[bytes, int]:
        """Return a pair as `packed_pair` does."""
        scoring = self.scoring
        ids = [*scoring.before, *first, *scoring.between, *second, *scoring.after]
        length = len(second) + len(scoring.after)
        return packed_pair(ids, second=length, second_type=scoring.second_type)


def packed_pair(ids: Sequence[int], *, second: int = 0, second_type: int = 0) -> tuple[bytes, int]:
    """Return an input as a `SegmentRunner` takes it, and its number of tokens.

    The last `second` tokens are of the second text, and have its token type.
    """
    types = b"\1" * (len(ids) - second) + bytes([1 + second_type]) * second
    return array("i", ids).tobytes() + types, len(ids)


def cut(value: _Cut, length: int, how: str) -> _Cut:
    """Return the start of a text or of its ids, or its end if `how` is to cut the left."""
    return value[max(0, len(value) - length) :] if how == "left" else value[:length]


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
