"""Splitting texts into requests."""

import json

from hypothesis import given
from hypothesis import strategies as st

from embedding_client import BatchLimits
from embedding_client._protocol import batches, estimated_tokens, halves


@given(
    st.lists(st.text(min_size=1, max_size=40)),
    st.integers(1, 10),
    st.integers(1, 25),
    st.integers(20, 300),
)
def test_batches_keep_order_and_limits(texts, count, tokens, body):
    """Batches hold all texts in order, within each limit unless one text exceeds it by itself."""
    made = list(batches(texts, BatchLimits(texts=count, tokens=tokens, body=body)))
    assert [text for batch in made for text in batch.texts] == texts
    assert [batch.start for batch in made] == [
        sum(len(before.texts) for before in made[:position]) for position in range(len(made))
    ]
    for batch in made:
        assert 1 <= len(batch.texts) <= count
        if len(batch.texts) > 1:
            assert sum(map(estimated_tokens, batch.texts)) <= tokens
            assert sum(len(json.dumps(json.dumps(text))) for text in batch.texts) <= body


@given(st.lists(st.text(min_size=1), min_size=2, max_size=20))
def test_halves_hold_all_texts(texts):
    """Both halves have texts, and their positions are those of the batch."""
    (batch,) = batches(texts, BatchLimits(tokens=10**9))
    first, second = halves(batch)
    assert [*first.texts, *second.texts] == texts
    assert first.texts
    assert second.start == len(first.texts)


def test_batches_are_lazy():
    """An endless stream of texts can be split."""
    endless = ("x" for _ in iter(int, 1))
    made = batches(endless, BatchLimits(texts=3))
    assert next(made).texts == ["x"] * 3
    assert next(made).start == 3
