"""When requests are due, and their texts."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedder.core.engine import Engine
from embedding_client.load_test.traffic import Texts, make_plan


def text_of(body):
    (text,) = json.loads(body)["texts"]
    return text


@given(
    rate=st.floats(0.001, 500),
    seconds=st.floats(0.6, 60),
    most=st.integers(1, 2000),
    tokens=st.tuples(st.integers(1, 400), st.integers(1, 400)).map(sorted).map(tuple),
    seed=st.integers(0, 99),
)
def test_a_plan_keeps_its_limits(rate, seconds, most, tokens, seed):
    """Times rise within the test, lengths are in their range, and one seed gives one plan."""
    asked = {"rate": rate, "seconds": seconds, "tokens": tokens, "most": most}
    plan = make_plan(**asked, seed=seed)
    again = make_plan(**asked, seed=seed)
    assert plan.due.tolist() == again.due.tolist()
    assert plan.tokens.tolist() == again.tokens.tolist()
    assert len(plan.due) == len(plan.tokens) <= most
    assert np.all(np.diff(plan.due) >= 0)
    assert np.all((plan.due >= 0) & (plan.due < seconds))
    assert np.all((plan.tokens >= tokens[0]) & (plan.tokens <= tokens[1]))


def test_arrivals_are_those_of_independent_callers():
    """Of a Poisson process: the mean and the variance of the counts are the rate."""
    plan = make_plan(rate=20, seconds=5000, tokens=(8, 400), most=10**6, seed=0)
    counts = np.bincount(plan.due.astype(int), minlength=5000)
    assert counts.mean() == pytest.approx(20, rel=0.02)
    assert counts.var() == pytest.approx(20, rel=0.1)
    # Short texts are frequent: half of the logarithms are below the middle.
    assert np.median(plan.tokens) == pytest.approx((8 * 400) ** 0.5, rel=0.05)


def test_the_limit_of_requests_caps_a_plan():
    """It says so, because the test then ends before its time."""
    capped = make_plan(rate=50, seconds=60, tokens=(8, 8), most=10, seed=0)
    assert (len(capped.due), capped.capped) == (10, True)
    assert not make_plan(rate=50, seconds=1, tokens=(8, 8), most=1000, seed=0).capped


def test_one_seed_gives_one_sequence_of_different_texts():
    """An endpoint's cache must not answer them."""
    one, again, other = Texts(1), Texts(1), Texts(2)
    sequence = [text_of(one.body(20)) for _ in range(50)]
    assert sequence == [text_of(again.body(20)) for _ in range(50)]
    assert len(set(sequence)) == 50
    assert text_of(other.body(20)) not in sequence


def test_the_model_counts_the_tokens_that_were_asked_for(minilm_artifact):
    """Each word is one token of the model's vocabulary, and a text has one word at least."""
    engine = Engine.load(minilm_artifact)
    texts = Texts(0)
    embedded = engine.embed([text_of(texts.body(tokens)) for tokens in (1, 3, 8, 64, 200)])
    assert list(embedded.tokens) == [3, 3, 8, 64, 200]
