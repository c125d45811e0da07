"""The subject of a model: its texts, its families, and what is refused."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from model_compiler.source.catalog import CATALOG, find
from tools.bench.model import FAMILIES, Texts
from tools.bench.replicas import SHAPES
from tools.bench.shapes import REFERENCE


@pytest.mark.parametrize("tokens", [12, 32, 256])
def test_a_text_has_the_number_of_tokens(minilm_folder: Path, tokens: int) -> None:
    """Special tokens included; another seed gives another text."""
    file = minilm_folder / "tokenizer.json"
    library = Tokenizer.from_file(str(file))
    library.no_truncation()
    library.no_padding()
    texts = Texts(file)
    assert len(library.encode(texts.text(tokens)).ids) == tokens
    assert texts.text(tokens) == texts.text(tokens)
    assert len(set(texts.batch([tokens] * 4))) == 4


def test_each_shape_has_the_width_of_its_models() -> None:
    """And a model's limit is not above that of its shape."""
    entries = [entry for entry in CATALOG if entry.shape]
    assert {entry.shape for entry in entries} == set(SHAPES)
    for entry in entries:
        shape = SHAPES[entry.shape]
        assert entry.dimensions[0] == shape.dimensions
        assert (entry.max_tokens or 0) <= shape.max_tokens
        assert entry.family == shape.config.get("model_type", "static")


@pytest.mark.parametrize(
    ("name", "shape"), [*FAMILIES.items(), ("all-MiniLM-L6-v2", REFERENCE)], ids=str
)
def test_a_family_has_the_shape_of_its_model(name: str, shape: str) -> None:
    """Ratios are relative to the model of `environments/dev.toml`."""
    entry = find(name)
    assert entry
    assert entry.shape == shape
