"""The reranker: pairs, truncation, errors that name the passage."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from embedder.core.artifact import Manifest, ScoringEntry
from embedder.core.errors import EmptyInputError, InferenceError, InputError, InputTooLongError
from embedder.core.reranker import Reranker
from embedder.core.scorer import longest_first
from tests.embedder.small_model import CLS, SEP, WordTokenizer, manifest_of


class PairSession:
    """A session with a logit for each row: the sum of its ids under a 2 of the mask, cut off."""

    def __init__(self) -> None:
        self.rows: list[tuple[list[int], list[int]]] = []
        #: The id for which a logit is NaN.
        self.broken = -1

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Return one logit per row."""
        self.rows += zip(input_ids.tolist(), attention_mask.tolist(), strict=True)
        logits = (input_ids * (attention_mask == 2)).sum(axis=1) % 97 / 10 - 4
        logits[(input_ids == self.broken).any(axis=1)] = np.nan
        return logits[:, None].astype(np.float32)


SCORING = ScoringEntry(
    labels=("LABEL_0",),
    activation="sigmoid",
    before=(CLS,),
    between=(SEP,),
    after=(SEP,),
    second_type=1,
    query_prefix="",
    query_suffix="",
    passage_prefix="",
    truncation="longest_first",
)
MANIFEST = manifest_of(max_tokens=12)._replace(task="rerank", dimensions=(), scoring=SCORING)


@pytest.fixture
def session() -> PairSession:
    return PairSession()


def reranker(session: PairSession, manifest: Manifest = MANIFEST, **options: Any) -> Reranker:
    return Reranker(manifest, WordTokenizer(), session, **options)


def test_a_pair_has_the_models_tokens_and_types(session):
    """The mask has 1 for the query and 2 for the passage, each with its special tokens."""
    reranker(session).rerank("a b", ["c"])
    ((ids, mask),) = session.rows
    a, b, c = (WordTokenizer().encode(word)[0] for word in "abc")
    assert ids[:6] == [CLS, a, b, SEP, c, SEP]
    assert mask == [1, 1, 1, 1, 2, 2, 0, 0]


def test_a_score_is_the_sigmoid_of_the_logit(session):
    """The raw score is the logit itself; both are float32 in the order of the passages."""
    ranker = reranker(session)
    raw = ranker.rerank("a", ["b", "c", "b"], raw=True).scores
    scores, work = ranker.rerank("a", ["b", "c", "b"])
    assert scores.dtype == np.float32
    assert scores.tolist() == pytest.approx([1 / (1 + math.exp(-logit)) for logit in raw])
    assert (work.repeats, work.vector_space) == (1, MANIFEST.vector_space)


@pytest.mark.parametrize("logit", [-2000.0, -0.5, 0.0, 2000.0])
def test_a_far_logit_has_a_score(session, logit):
    """No logit is too large or too small for the sigmoid."""
    score = reranker(session).activated(np.array([[logit]], np.float32))[0, 0]
    assert 0 <= score <= 1


def test_equal_ids_of_another_split_are_another_input(session):
    """The cache separates pairs that have equal ids and different token types."""
    ranker = reranker(
        session, MANIFEST._replace(scoring=SCORING._replace(between=())), cache_entries=9
    )
    logits = ranker.rerank("a b", ["c"], raw=True).scores
    assert ranker.rerank("a", ["b c"], raw=True).scores != logits
    again = ranker.rerank("a b", ["c"], raw=True)
    assert (again.scores.tolist(), again.work.cache_hits) == (logits.tolist(), 1)


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (2, 20, (2, 7)),
        (20, 2, (7, 2)),
        (6, 6, (4, 5)),
        (7, 6, (5, 4)),
        (20, 20, (4, 5)),
        (4, 5, (4, 5)),
    ],
)
def test_the_longer_text_is_cut_first(first, second, kept):
    """As `tokenizers` does it: a pair that fills the room keeps all of both."""
    assert longest_first(first, second, 9) == kept


def test_truncation_of_the_passage_keeps_the_query(session):
    """A query that leaves no room is the query's error."""
    ranker = reranker(session)
    assert ranker.rerank("a b c d e f", ["g " * 20], truncate="passage").work.tokens == [12]
    assert session.rows[0][1].count(2) == 4
    with pytest.raises(InputTooLongError, match=r'"query" has 12 tokens .* leaves no room'):
        ranker.rerank("a b c d e f g h i", ["g"], truncate="passage")


TEMPLATE = SCORING._replace(
    before=(),
    between=(),
    query_prefix="find for ",
    query_suffix=" now",
    passage_prefix="text : ",
    truncation="passage",
)


def test_a_templates_text_is_tokenized_with_the_text_next_to_it(session):
    """Its own tokens are not cut off, and the query stays whole however a pair is truncated."""
    ranker = reranker(session, MANIFEST._replace(scoring=TEMPLATE), truncate="right")
    words = WordTokenizer().encode
    ranker.rerank("a b", ["c d e", "f"], max_passage_tokens=2)
    ids = {tuple(filter(None, row)) for row, _ in session.rows}  # without padding
    head = words("find for a b now text :")
    assert ids == {(*head, *words("c d"), SEP), (*head, *words("f"), SEP)}
    assert ranker.rerank("a b c", ["d " * 9], truncate="right").work.tokens == [12]
    with pytest.raises(EmptyInputError, match=r'"passages\[0\]" must hold text'):
        ranker.rerank("a", [" "])


ERRORS: list[tuple[str, list[str], type[InputError], str, int | None]] = [
    ("", ["a"], EmptyInputError, '"query" must hold text', None),
    ("a", ["b", " "], EmptyInputError, r'"passages\[1\]" must hold text', 1),
    ("a", ["b", "c", "d " * 10], InputTooLongError, r'"passages\[2\]" has 14 tokens together', 2),
    ("a", ["b", "x" * 41], InputTooLongError, r'"passages\[1\]" has 41 characters', 1),
    ("x" * 41, ["b"], InputTooLongError, '"query" has 41 characters', None),
    ("a", [], EmptyInputError, '"passages" must have at least one input', None),
]


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_names_the_text(session, case):
    """An API finds the passage by its position, and a reader by its name."""
    query, passages, error_class, message, position = case
    with pytest.raises(error_class, match=message) as caught:
        reranker(session, max_characters=40).rerank(query, passages)
    assert caught.value.position == position


def test_a_score_that_is_no_number_names_its_passage(session):
    """The first passage that has it is named, and nothing is kept of it."""
    session.broken = WordTokenizer().encode("bad")[0]
    with pytest.raises(InferenceError, match=r"no finite score for passages\[2\]"):
        reranker(session).rerank("a", ["b", "c d e f", "bad", "bad"])
