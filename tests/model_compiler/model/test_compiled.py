"""Models compiled from their weights, of every family."""

from dataclasses import replace

import onnx
import pytest

from model_compiler.model.base import GRAPH_FILE
from model_compiler.model.folder import read_model_folder
from model_compiler.model.modules import Head
from tests.model_compiler.goldens.families import FAMILIES, write_family

#: Products between the embeddings and the first layer, which count as the first layer's.
BEFORE_LAYERS = {"albert": 1, "electra": 1, "embedding_gemma2": 6, "embedding_gemma2_text": 6}


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_in_float32(tmp_path, family):
    """Each family ends its layers, and a layer that is kept in float32 has no int8 product."""
    model = read_model_folder(write_family(tmp_path / "model", family))
    (tmp_path / "graph").mkdir()
    every = range(len(model.write(tmp_path / "graph").layers))
    counts = []
    for layers in ((), (0,), every):
        replace(model, float32_layers=frozenset(layers)).write(tmp_path / "graph")
        nodes = onnx.load(tmp_path / "graph" / GRAPH_FILE, load_external_data=False).graph.node
        counts.append(sum(node.op_type == "MatMulIntegerToFloat" for node in nodes))
    assert isinstance(model.head, Head)
    before, outside = BEFORE_LAYERS.get(family, 0), len(model.head.modules)
    each = counts[0] - counts[1] - before
    assert counts[0] - outside == before + each * len(every) > before
    assert counts[2] == outside
