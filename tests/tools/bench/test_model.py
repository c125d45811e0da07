"""The subject of a model: its texts, its families, and what is refused."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from model_compiler.source.catalog import CATALOG, find, measurements
from model_compiler.source.catalog.estimate import STATIC, estimate
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
        family = shape.config.get("model_type", "static")
        assert entry.family in {family, "new" if family == "gte" else family}


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if len(shape.config) > 1])
def test_an_estimate_is_within_13_percent_of_each_measured_shape(name: str) -> None:
    """And what is listed as estimated is the estimate."""
    shape, found = measurements().shapes[name], estimate(SHAPES[name].config)
    listed = (shape.tokens_32, shape.tokens_256)
    tolerance = 0 if shape.estimated else 0.13
    assert found == pytest.approx(listed, rel=tolerance)


def test_an_estimate_reads_the_replica_of_gemma_and_needs_sizes() -> None:
    """Its queries, keys and values have another width than its layers."""
    gemma = {"model_type": "gemma3_text", "num_hidden_layers": 24, "hidden_size": 768}
    assert estimate(gemma) is None
    heads = {"num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 256}
    shape = measurements().shapes["gemma3-24x768"]
    found = estimate({**gemma, **heads, "intermediate_size": 1152})
    assert found == pytest.approx((shape.tokens_32, shape.tokens_256), rel=0.13)
    assert estimate({"model_type": "model2vec"}) == STATIC


@pytest.mark.parametrize(
    ("name", "shape"), [*FAMILIES.items(), ("all-MiniLM-L6-v2", REFERENCE)], ids=str
)
def test_a_family_has_the_shape_of_its_model(name: str, shape: str) -> None:
    """Ratios are relative to the model of `environments/dev.toml`."""
    entry = find(name)
    assert entry
    assert entry.shape == shape
