"""The plain graph computes the same as the model that it replaces."""

from pathlib import Path

import numpy as np
import onnxruntime

from tests.model_compiler.goldens.gemma3_model import sequences, write_gemma3
from tools.bench.plain_graph import write_plain_graph

GOLDENS = Path(__file__).resolve().parents[2] / "model_compiler" / "goldens"


def test_the_plain_graph_is_the_model(tmp_path: Path) -> None:
    """Its vectors are those of transformers."""
    write_plain_graph(write_gemma3(tmp_path / "model"), tmp_path)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    with np.load(GOLDENS / "families.npz") as golden:
        expected = golden["gemma3_text plain"]
        for (length, ids), vector in zip(sequences().items(), expected, strict=True):
            feed = {"input_ids": ids[None], "attention_mask": np.ones((1, length), np.int64)}
            (vectors,) = session.run(None, feed)
            np.testing.assert_allclose(vectors[0], vector, atol=1e-5)
