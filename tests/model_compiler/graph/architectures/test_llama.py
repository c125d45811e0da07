"""Models with Llama's layers: an instruction, and the last token."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from embedder.core.engine import Engine
from model_compiler.artifact.manifest import Choices
from tests.model_compiler.conftest import GOLDEN, embed_each
from tests.model_compiler.goldens.files import edit_json
from tests.model_compiler.goldens.llama_model import TEXTS, write_llama


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the plain model, which the test may change."""
    return write_llama(tmp_path / "model")


def test_a_prompt_is_in_front_of_the_text(folder, compile_tiny):
    """A query's instruction counts toward the limit, and the last token is still the appended."""
    artifact = compile_tiny(folder)
    vectors = embed_each(artifact, list(TEXTS.values()), prompt="query")
    np.testing.assert_allclose(vectors, GOLDEN["qwen3 query"], atol=1e-6, rtol=0)
    assert artifact.manifest.default_prompt == "document"


def test_a_pooling_without_the_prompt(folder, compile_tiny):
    """`include_prompt` may be false: the last token is never part of the prompt."""
    edit_json(folder / "1_Pooling" / "config.json", include_prompt=False)
    vectors = embed_each(compile_tiny(folder), list(TEXTS.values()), prompt="query")
    np.testing.assert_allclose(vectors, GOLDEN["qwen3 query"], atol=1e-6, rtol=0)


def test_the_start_of_a_vector_is_a_vector(folder, compile_tiny):
    """For a model that was trained for it, fewer dimensions are the first ones, of length 1."""
    engine = Engine.load(compile_tiny(folder, choices=Choices(dimensions=(32,))))
    full = engine.embed(["hello"]).vectors[0]
    short = engine.embed(["hello"], dimensions=32).vectors[0]
    np.testing.assert_allclose(short, full[:32] / np.linalg.norm(full[:32]), atol=1e-6)


def test_every_value_is_on_the_path_to_the_vector(folder, compile_tiny):
    """ONNX Runtime keeps a value until its last reader has run, and runs dead ends last."""
    graph = onnx.load(compile_tiny(folder).graph_path, load_external_data=False).graph
    needed = {output.name for output in graph.output}
    for node in reversed(graph.node):
        assert needed >= set(node.output), node.name
        needed |= set(node.input)
