"""Nomic BERT with experts against its authors' definition."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_compiler.graph.builder import Precision
from tests.model_compiler.conftest import Compile
from tests.model_compiler.goldens.encoder_models import sequences
from tests.model_compiler.goldens.nomic_moe_model import reference, write_moe
from tests.model_compiler.graph.architectures.conftest import embed, embed_each


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"moe_top_k": 1},
        {"moe_normalize_expert_weights": True},
        {"moe_top_k": 3, "num_experts": 5, "moe_every_n_layers": 3},
        {"moe_top_k": 2, "num_experts": 2},
        {"moe_every_n_layers": 0},
        {"moe_top_k": 1, "twins": True},
    ],
    ids=str,
)
def test_vectors_are_those_of_the_definition(
    tmp_path: Path, compile_tiny: Compile, changes: dict[str, Any]
) -> None:
    """Alone and with padding in float32, near in int8; of equal experts the first is chosen."""
    folder = write_moe(tmp_path / "model", **changes)
    golden = np.stack([reference(folder, ids) for ids in sequences()])
    artifact = compile_tiny(folder)
    for found in (embed_each(artifact, sequences()), embed(artifact, sequences())):
        np.testing.assert_allclose(found, golden, atol=1e-5, rtol=0)
    near = embed_each(compile_tiny(folder, Precision.INT8), sequences())
    assert (near * golden).sum(axis=1).min() > 0.99


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("tokens", [1, 2, 40])
def test_a_text_is_the_same_in_any_company(
    tmp_path: Path, compile_tiny: Compile, precision: Precision, tokens: int
) -> None:
    """Vectors are bit-identical alone and in a batch, whatever the rows of each expert are."""
    artifact = compile_tiny(write_moe(tmp_path / "model"), precision)
    ids = list(np.random.RandomState(5).randint(5, 70, (33, tokens)))
    np.testing.assert_array_equal(embed(artifact, ids), embed_each(artifact, ids))
