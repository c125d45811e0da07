"""Texts of the families' benchmark."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tools.bench.families.shapes import SHAPES
from tools.bench.families.texts import Texts
from tools.bench.families.vocabularies import tokenizer_json


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write MPNet's tokenizer."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    path.write_bytes(tokenizer_json(SHAPES["mpnet-12x768"]))
    return path


@pytest.mark.parametrize("tokens", [12, 32, 256])
def test_a_text_has_the_number_of_tokens(file: Path, tokens: int) -> None:
    """Special tokens included; another seed gives another text."""
    texts = Texts(file)
    assert len(Tokenizer.from_file(str(file)).encode(texts.text(tokens, 0)).ids) == tokens
    assert texts.text(tokens, 0) == texts.text(tokens, 0)
    assert len(set(texts.batch([tokens] * 4)[0])) == 4


def test_a_vocabulary_has_its_published_size(file: Path) -> None:
    """A smaller one is cut, a larger one filled up."""
    assert Tokenizer.from_file(str(file)).get_vocab_size() == 30_527
    for name in ("static-29528x256", "static-63091x512"):
        tokenizer = Tokenizer.from_str(tokenizer_json(SHAPES[name]).decode())
        assert tokenizer.get_vocab_size() == SHAPES[name].vocabulary
