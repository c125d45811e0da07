"""The second graph of each family: its nodes, and that it computes what the first one does."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, helper

from embedder.core import session
from model_compiler.graph import attention_rows
from model_compiler.graph.builder import Precision
from model_compiler.graph.linear_rows import OPERATOR, PRODUCT
from model_compiler.graph.operators import with_operators
from model_compiler.model.base import GRAPH_FILE, OPERATOR_FILE
from model_compiler.model.compiled import CompiledModel
from model_compiler.model.folder import read_model_folder
from tests.model_compiler.goldens.families import DEFINED, FAMILIES, write_family
from tests.model_compiler.graph import attention_reference

#: Products that stay: of groups of rows, and with widths that are no multiple of 16.
LEFT = {"embedding_gemma2": 12, "embedding_gemma2_text": 12, "nomic_bert with experts": 32, "t5": 6}
#: Families whose attention stays, as it is to earlier tokens alone.
CAUSAL = {"mistral", "qwen2", "qwen3"}
#: Families that rotate keys with a bias, whose attention stays, too.
BIASED = {"gte", "jina_embeddings_v3", "nomic_bert with experts"}
#: The operators of attention in the first graph.
ATTENTION = ("Attention", "FusedMatMul", "MultiHeadAttention")


def write_graphs(folder: Path, family: str, **changes: object) -> list[Path]:
    """Compile the family's first model with these fields, and return the paths of both graphs."""
    model = read_model_folder(write_family(folder / "model", family))
    assert isinstance(model, CompiledModel)
    assert replace(model, **changes).write(folder).operator_file == OPERATOR_FILE  # type: ignore[arg-type]
    return [folder / file for file in (GRAPH_FILE, OPERATOR_FILE)]


def counted(model: ModelProto) -> Counter[str]:
    """Return the number of a graph's nodes by operator."""
    return Counter(node.op_type for node in model.graph.node)


@pytest.mark.parametrize("family", sorted({*FAMILIES, *DEFINED}))
def test_both_graphs_are_one_function(tmp_path, family):
    """Each family's products and attention become nodes; vectors are equal, alone and together.

    Both graphs share the external weights, and the second one adds little of its own. With
    attention in float32, they differ by the rounding of floats.
    """
    paths = write_graphs(tmp_path, family)
    plain, rewritten = (counted(onnx.load(path, load_external_data=False)) for path in paths)
    left = LEFT.get(family, 0)
    assert (rewritten[OPERATOR], rewritten[PRODUCT]) == (plain[PRODUCT] - left, left)
    attention = sum(plain[name] for name in ATTENTION)
    assert rewritten[attention_rows.OPERATOR] == (0 if family in BIASED else attention)
    assert bool(attention) is (family not in CAUSAL)
    assert rewritten.total() < plain.total() - 2 * rewritten[OPERATOR]
    assert paths[1].stat().st_size < 1.1 * paths[0].stat().st_size
    sessions = []
    for path in paths:
        options = session.session_options("none", threads=1)
        options.register_custom_ops_library(session._LIBRARY)
        sessions.append(
            onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        )
    names = [entry.name for entry in sessions[0].get_inputs()]
    for batch, tokens in ((1, 1), (3, 7), (2, 40)):
        ids = np.random.default_rng(tokens).integers(5, 60, (batch, tokens))
        mask = np.ones_like(ids)
        mask[1:, 2 * tokens // 3 :] = 0
        feed = dict(zip(names, (ids, mask), strict=True))
        vectors, others = (one.run(None, feed)[0] for one in sessions)
        unrounded = attention_reference.run(paths[1], feed)
        assert (vectors * unrounded).sum(axis=1).min() > 0.99999
        assert (vectors * others).sum(axis=1).min() > 0.995
        for row, vector in enumerate(others):
            alone = {name: values[row : row + 1] for name, values in feed.items()}
            np.testing.assert_array_equal(sessions[1].run(None, alone)[0][0], vector)


@pytest.mark.parametrize(
    ("family", "operator", "attribute", "changed"),
    [
        ("bert", "Attention", "is_causal", 1),
        ("eurobert", "MultiHeadAttention", "unidirectional", 1),
        ("gemma3_text", "FusedMatMul", "alpha", 0.5),
        ("gemma3_text", "Softmax", "axis", 1),
        ("t5", "MultiHeadAttention", "unidirectional", 1),
    ],
)
def test_other_forms_of_attention_stay(tmp_path, family, operator, attribute, changed):
    """Attention that the operator does not express is left in the graph."""
    model = onnx.load(write_graphs(tmp_path, family)[0], load_external_data=False)
    for node in model.graph.node:
        if node.op_type == operator:
            kept = [entry for entry in node.attribute if entry.name != attribute]
            del node.attribute[:]
            node.attribute.extend([*kept, helper.make_attribute(attribute, changed)])
    rewritten = with_operators(model)
    assert rewritten is not None
    before, after = counted(model), counted(rewritten)
    assert before[operator] == after[operator]
    assert not after[attention_rows.OPERATOR]
    assert after[OPERATOR]


def test_a_layer_in_float32_keeps_its_attention(tmp_path):
    """It is for accuracy that a layer is in float32."""
    paths = write_graphs(tmp_path, "gemma3_text", float32_layers=frozenset({1, 2}))
    plain, rewritten = (counted(onnx.load(path, load_external_data=False)) for path in paths)
    assert plain["Softmax"] == 6
    assert (rewritten["Softmax"], rewritten[attention_rows.OPERATOR]) == (2, 4)


def test_full_precision_has_one_graph(tiny_folder, compile_tiny):
    """A graph without int8 layers has no second file, and its manifest names none."""
    artifact = compile_tiny(tiny_folder)
    assert artifact.manifest.graph.operator_file is None
    assert not Path(artifact.folder, OPERATOR_FILE).exists()
    artifact = compile_tiny(tiny_folder, Precision.INT8)
    assert OPERATOR_FILE in artifact.manifest.files
