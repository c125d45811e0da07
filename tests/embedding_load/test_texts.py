"""Texts of so many tokens."""

import json

import pytest

from embedder.engine import Engine
from embedding_load.texts import Texts


def text_of(body):
    (text,) = json.loads(body)["texts"]
    return text


def test_one_seed_gives_one_sequence_of_different_texts():
    """An endpoint's cache must not answer them."""
    one, again, other = Texts(1), Texts(1), Texts(2)
    sequence = [text_of(one.body(20)) for _ in range(50)]
    assert sequence == [text_of(again.body(20)) for _ in range(50)]
    assert len(set(sequence)) == 50
    assert text_of(other.body(20)) not in sequence


@pytest.mark.parametrize("tokens", [1, 2, 3, 8, 100])
def test_a_text_has_a_word_for_each_token_but_two(tokens):
    """A model adds two; a text has one word at least."""
    assert len(text_of(Texts(0).body(tokens)).split()) == max(1, tokens - 2)


def test_the_model_counts_the_tokens_that_were_asked_for(minilm_artifact):
    """Each word is one token of the model's vocabulary."""
    engine = Engine.load(minilm_artifact)
    texts = Texts(0)
    embedded = engine.embed([text_of(texts.body(tokens)) for tokens in (3, 8, 64, 200)])
    assert list(embedded.tokens) == [3, 8, 64, 200]
