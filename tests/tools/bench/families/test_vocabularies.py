"""The replicas' tokenizers are of the published size, and the fast tokenizers cover them."""

import json
from dataclasses import replace

import pytest
from tokenizers import Tokenizer

from model_compiler.tokenizer.tables import build
from tests.fixtures.byte_level_tokenizer import FULL_SIZES, byte_level_tokenizer
from tools.bench.families.shapes import SHAPES
from tools.bench.families.vocabularies import tokenizer_json


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param("qwen3-28x1024", marks=pytest.mark.slow),
        pytest.param("modernbert-22x768", marks=pytest.mark.slow),
        "roberta-6x768",
    ],
)
def test_a_filled_vocabulary_is_covered(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unused tokens come before the added ones, which keep their place around a text."""
    module = "tools.bench.families.vocabularies"
    monkeypatch.setattr(f"{module}.FULL_SIZES", dict.fromkeys(FULL_SIZES, 500))
    monkeypatch.setattr(
        f"{module}.byte_level_tokenizer",
        lambda name, tokens: byte_level_tokenizer(name, tokens=tokens, files=2),
    )
    data = tokenizer_json(replace(SHAPES[shape], vocabulary=2000))
    library = Tokenizer.from_buffer(data)
    assert library.get_vocab_size() == 2000
    assert build(data).reason is None
    small = byte_level_tokenizer(SHAPES[shape].tokenizer, tokens=500, files=2)
    expected = Tokenizer.from_buffer(small).encode("two words")
    assert library.encode("two words").tokens == expected.tokens
    added = {token["id"] for token in json.loads(data)["added_tokens"]}
    assert max(added) == 1999
