"""Families that transformers does not have, against the definitions of their authors."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from model_compiler.graph.architectures.jina_bert import LIMIT
from model_compiler.graph.attention import slopes
from model_compiler.graph.builder import Precision
from model_compiler.model.folder import read_model_folder
from tests.model_compiler.conftest import embed, embed_each
from tests.model_compiler.goldens import jina_bert_model, nomic_moe_model
from tests.model_compiler.goldens.encoder_models import sequences
from tests.model_compiler.goldens.jina_bert_model import SLOPES, write_jina_bert
from tests.model_compiler.goldens.nomic_moe_model import write_moe

Write = Callable[[Path], Path]


@pytest.mark.parametrize(
    ("write", "reference"),
    [
        *(
            (
                partial(write_jina_bert, heads=heads, qk=qk),
                partial(jina_bert_model.reference, heads=heads),
            )
            for heads, qk in ((4, False), (6, False), (6, True))
        ),
        *(
            (partial(write_moe, **changes), nomic_moe_model.reference)
            for changes in (
                {},
                {"moe_top_k": 1},
                {"moe_normalize_expert_weights": True},
                {"moe_top_k": 3, "num_experts": 5, "moe_every_n_layers": 3},
                {"moe_top_k": 2, "num_experts": 2},
                {"moe_every_n_layers": 0},
                # Of equal experts the first is chosen.
                {"moe_top_k": 1, "twins": True},
            )
        ),
    ],
    ids=lambda call: str(call.keywords) if isinstance(call, partial) else "",
)
def test_vectors_are_those_of_the_definition(tmp_path, compile_tiny, write, reference):
    """Alone and with padding in float32, near in int8."""
    folder = write(tmp_path / "model")
    golden = np.stack([reference(folder, ids) for ids in sequences()])
    artifact = compile_tiny(folder)
    for vectors in (embed_each(artifact, sequences()), embed(artifact, sequences())):
        np.testing.assert_allclose(vectors, golden, atol=1e-5, rtol=0)
    near = embed_each(compile_tiny(folder, Precision.INT8), sequences())
    assert (near * golden).sum(axis=1).min() > 0.99


@pytest.mark.parametrize(
    ("write", "tokens"),
    [
        (write_jina_bert, 40),
        (partial(write_jina_bert, qk=True), 40),
        *((write_moe, tokens) for tokens in (1, 2, 40)),
    ],
)
@pytest.mark.parametrize("precision", Precision)
def test_a_text_is_the_same_in_any_company(tmp_path, compile_tiny, precision, write, tokens):
    """Vectors are bit-identical alone and in a batch, whatever the rows of each expert are."""
    artifact = compile_tiny(write(tmp_path / "model"), precision)
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
