"""Models compiled from their weights, of every family."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import onnx
import pytest

from model_compiler.model.base import GRAPH_FILE
from model_compiler.model.folder import read_model_folder
from tests.model_compiler.goldens.encoder_models import write_encoder
from tests.model_compiler.goldens.gemma3_model import write_gemma3
from tests.model_compiler.goldens.modernbert_model import write_modernbert
from tests.model_compiler.goldens.qwen3_model import write_qwen3
from tests.model_compiler.goldens.tiny_models import write_model

FAMILIES: dict[str, Callable[[Path], Path]] = {
    "bert": write_model,
    "gemma3_text": write_gemma3,
    "modernbert": write_modernbert,
    "nomic_bert": partial(write_encoder, family="nomic_bert"),
    "qwen3": write_qwen3,
    "xlm-roberta": partial(write_encoder, family="xlm-roberta"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_in_float32(tmp_path: Path, family: str) -> None:
    """Each family ends its layers, and a layer that is kept in float32 has no int8 product."""
    model = read_model_folder(FAMILIES[family](tmp_path / "model"))
    (tmp_path / "graph").mkdir()
    every = range(len(model.write(tmp_path / "graph").layers))
    counts = []
    for layers in ((), (0,), every):
        replace(model, float32_layers=frozenset(layers)).write(tmp_path / "graph")
        nodes = onnx.load(tmp_path / "graph" / GRAPH_FILE, load_external_data=False).graph.node
        counts.append(sum(node.op_type == "MatMulIntegerToFloat" for node in nodes))
    outside = len(model.head.dense)
    assert counts[0] - outside == (counts[0] - counts[1]) * len(every) > 0
    assert counts[2] == outside
