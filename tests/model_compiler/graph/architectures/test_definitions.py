"""Families that transformers does not have, against the definitions of their authors."""

import numpy as np
import pytest

from model_compiler.graph.architectures.jina_bert import LIMIT
from model_compiler.graph.attention import slopes
from model_compiler.graph.builder import Precision
from model_compiler.model.folder import read_model_folder
from tests.model_compiler.conftest import embed, embed_each
from tests.model_compiler.goldens.encoder_models import sequences
from tests.model_compiler.goldens.families import DEFINED
from tests.model_compiler.goldens.jina_bert_model import SLOPES, write_jina_bert

each_variant = pytest.mark.parametrize(
    ("family", "traits"),
    [(name, traits) for name, family in DEFINED.items() for traits in family.variants],
    ids=str,
)


@each_variant
def test_vectors_are_those_of_the_definition(tmp_path, compile_tiny, family, traits):
    """Alone and with padding in float32, near in int8."""
    defined = DEFINED[family]
    folder = defined.write(tmp_path / "model", **traits)
    golden = np.stack([defined.reference(folder, ids) for ids in sequences()])
    artifact = compile_tiny(folder)
    for vectors in (embed_each(artifact, sequences()), embed(artifact, sequences())):
        np.testing.assert_allclose(vectors, golden, atol=1e-5, rtol=0)
    near = embed_each(compile_tiny(folder, Precision.INT8), sequences())
    # In one text, a token goes to another expert: both have almost the same logits.
    others = traits.get("moe_top_k") == 1
    assert np.sort((near * golden).sum(axis=1))[int(others)] > 0.99


@each_variant
@pytest.mark.parametrize("precision", Precision)
def test_a_text_is_the_same_in_any_company(tmp_path, compile_tiny, precision, family, traits):
    """Vectors are bit-identical alone and in a batch, whatever the rows of each expert are."""
    artifact = compile_tiny(DEFINED[family].write(tmp_path / "model", **traits), precision)
    for tokens in (1, 2, 40):
        ids = list(np.random.RandomState(5).randint(5, 70, (33, tokens)))
        np.testing.assert_array_equal(embed(artifact, ids), embed_each(artifact, ids))


def test_the_limit_of_jina_bert_is_that_of_its_card(tmp_path):
    """The file has more positions, which ALiBi does not need."""
    folder = write_jina_bert(tmp_path / "model")
    assert read_model_folder(folder).architecture.max_positions == LIMIT == 2048


@pytest.mark.parametrize("heads", SLOPES)
def test_slopes(heads):
    """They are the paper's, for 12 heads too."""
    np.testing.assert_allclose(slopes(heads), SLOPES[heads], rtol=1e-12)
