"""The texts that an endpoint is measured with."""

from embedder.core.engine import Engine
from tools.prove.texts import Texts


def test_one_seed_gives_one_sequence_of_different_texts():
    """An endpoint's cache must not answer them."""
    one, again, other = Texts(1), Texts(1), Texts(2)
    sequence = [one.text(20) for _ in range(50)]
    assert sequence == [again.text(20) for _ in range(50)]
    assert len(set(sequence)) == 50
    assert other.text(20) not in sequence


def test_the_model_counts_the_tokens_that_were_asked_for(minilm_artifact):
    """Each word is one token of the model's vocabulary, and a text has one word at least."""
    texts = Texts(0)
    embedded = Engine.load(minilm_artifact).embed(
        [texts.text(tokens) for tokens in (1, 3, 8, 64, 200)]
    )
    assert list(embedded.tokens) == [3, 3, 8, 64, 200]
