"""Jina BERT against its papers' definition."""

from pathlib import Path

import numpy as np
import pytest

from model_compiler.graph.architectures.jina_bert import LIMIT
from model_compiler.graph.attention import slopes
from model_compiler.graph.builder import Precision
from model_compiler.model.folder import read_model_folder
from tests.model_compiler.conftest import Compile
from tests.model_compiler.goldens.encoder_models import sequences
from tests.model_compiler.goldens.jina_bert_model import SLOPES, reference, write_jina_bert
from tests.model_compiler.graph.architectures.conftest import embed, embed_each


@pytest.mark.parametrize(("heads", "qk"), [(4, False), (6, False), (6, True)])
def test_vectors_are_those_of_the_definition(
    tmp_path: Path, compile_tiny: Compile, heads: int, qk: bool
) -> None:
    """Alone and with padding in float32, near in int8; each head has its slope."""
    folder = write_jina_bert(tmp_path / "model", heads, qk=qk)
    golden = np.stack([reference(folder, ids, heads) for ids in sequences()])
    artifact = compile_tiny(folder)
    for found in (embed_each(artifact, sequences()), embed(artifact, sequences())):
        np.testing.assert_allclose(found, golden, atol=1e-5, rtol=0)
    near = embed_each(compile_tiny(folder, Precision.INT8), sequences())
    assert (near * golden).sum(axis=1).min() > 0.99
    assert read_model_folder(folder).architecture.max_positions == LIMIT == 2048


@pytest.mark.parametrize("qk", [False, True])
@pytest.mark.parametrize("precision", Precision)
def test_a_text_is_the_same_in_any_company(
    tmp_path: Path, compile_tiny: Compile, precision: Precision, qk: bool
) -> None:
    """Vectors are bit-identical alone and in a batch of one length."""
    artifact = compile_tiny(write_jina_bert(tmp_path / "model", qk=qk), precision)
    ids = list(np.random.RandomState(5).randint(5, 70, (9, 40)))
    np.testing.assert_array_equal(embed(artifact, ids), embed_each(artifact, ids))


@pytest.mark.parametrize("heads", SLOPES)
def test_slopes(heads: int) -> None:
    """They are the paper's, for 12 heads too."""
    np.testing.assert_allclose(slopes(heads), SLOPES[heads], rtol=1e-12)
