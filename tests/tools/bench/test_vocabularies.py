"""The replicas' tokenizers are of the published size, and the fast tokenizers cover them."""

import json

import pytest
from tokenizers import Tokenizer

from model_compiler.tokenizer.tables import build
from tests.fixtures.byte_level_tokenizer import FULL_SIZES, byte_level_tokenizer
from tools.bench.replicas import SHAPES
from tools.bench.vocabularies import tokenizer_json


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("Qwen", marks=pytest.mark.slow),
        pytest.param("ModernBERT", marks=pytest.mark.slow),
        "RoBERTa",
    ],
)
def test_a_filled_vocabulary_is_covered(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unused tokens come before the added ones, which keep their place around a text."""
    module = "tools.bench.vocabularies"
    monkeypatch.setattr(f"{module}.FULL_SIZES", dict.fromkeys(FULL_SIZES, 500))
    monkeypatch.setattr(
        f"{module}.byte_level_tokenizer",
        lambda name, tokens: byte_level_tokenizer(name, tokens=tokens, files=2),
    )
    data = tokenizer_json(kind, 2000)
    library = Tokenizer.from_buffer(data)
    assert library.get_vocab_size() == 2000
    assert build(data).reason is None
    small = byte_level_tokenizer(kind, tokens=500, files=2)
    expected = Tokenizer.from_buffer(small).encode("two words")
    assert library.encode("two words").tokens == expected.tokens
    added = {token["id"] for token in json.loads(data)["added_tokens"]}
    assert max(added) == 1999


@pytest.mark.parametrize("name", ["mpnet-12x768", "static-29528x256", "static-63091x512"])
def test_a_vocabulary_has_its_published_size(name: str) -> None:
    """A smaller one is cut, a larger one filled up."""
    shape = SHAPES[name]
    data = tokenizer_json(shape.tokenizer, shape.vocabulary)
    assert Tokenizer.from_buffer(data).get_vocab_size() == shape.vocabulary
