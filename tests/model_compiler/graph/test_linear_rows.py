"""The second graph of each family: its nodes, and that it computes what the first one does."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from embedder.core import session
from model_compiler.graph.builder import Precision
from model_compiler.graph.linear_rows import OPERATOR, PRODUCT
from model_compiler.model.base import GRAPH_FILE, OPERATOR_FILE
from model_compiler.model.folder import read_model_folder
from tests.model_compiler.goldens.families import DEFINED, FAMILIES, write_family

#: Products that stay: of groups of rows, and with widths that are no multiple of 16.
LEFT = {"embedding_gemma2": 12, "embedding_gemma2_text": 12, "nomic_bert with experts": 32, "t5": 6}


@pytest.mark.parametrize("family", sorted({*FAMILIES, *DEFINED}))
def test_both_graphs_are_one_function(tmp_path, family):
    """Each family's products become nodes of the operator; vectors are equal, alone and together.

    Both graphs share the external weights, and the second one adds little of its own.
    """
    model = read_model_folder(write_family(tmp_path / "model", family))
    (tmp_path / "graph").mkdir()
    assert model.write(tmp_path / "graph").operator_file == OPERATOR_FILE
    paths = [tmp_path / "graph" / file for file in (GRAPH_FILE, OPERATOR_FILE)]
    plain, rewritten = (
        Counter(node.op_type for node in onnx.load(path, load_external_data=False).graph.node)
        for path in paths
    )
    left = LEFT.get(family, 0)
    assert (rewritten[OPERATOR], rewritten[PRODUCT]) == (plain[PRODUCT] - left, left)
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
        vectors, others = (
            one.run(None, dict(zip(names, (ids, np.ones_like(ids)), strict=True)))[0]
            for one in sessions
        )
        assert (vectors * others).sum(axis=1).min() > 0.99999
        for row, vector in zip(ids[:, None], others, strict=True):
            feed = dict(zip(names, (row, np.ones_like(row)), strict=True))
            np.testing.assert_array_equal(sessions[1].run(None, feed)[0][0], vector)


def test_full_precision_has_one_graph(tiny_folder, compile_tiny):
    """A graph without int8 layers has no second file, and its manifest names none."""
    artifact = compile_tiny(tiny_folder)
    assert artifact.manifest.graph.operator_file is None
    assert not Path(artifact.folder, OPERATOR_FILE).exists()
    artifact = compile_tiny(tiny_folder, Precision.INT8)
    assert OPERATOR_FILE in artifact.manifest.files
