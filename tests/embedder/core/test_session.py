"""The ONNX Runtime session: inputs, outputs, and a graph that contradicts the manifest."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedder.core.artifact import Artifact
from embedder.core.errors import ArtifactError
from embedder.core.session import Session

IDS = np.array([[101, 7592, 2088, 102], [101, 7592, 102, 0]])
MASK = np.array([[1, 1, 1, 1], [1, 1, 1, 0]])


def test_a_batch_becomes_rows_of_length_1(minilm_artifact: Artifact) -> None:
    """Vectors are float32 [batch, dimensions] and do not depend on masked ids."""
    session = Session(minilm_artifact)
    vectors = session.run(IDS, MASK)
    assert vectors.dtype == np.float32
    assert vectors.shape == (2, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    other = IDS.copy()
    other[1, 3] = 2003
    np.testing.assert_allclose(session.run(other, MASK), vectors, atol=1e-6)


def test_a_graph_that_cannot_be_loaded(minilm_artifact: Artifact, tmp_path: Path) -> None:
    """A graph of the right size with the wrong bytes is refused at load."""
    shutil.copytree(minilm_artifact.folder, tmp_path / "broken")
    path = tmp_path / "broken" / "model.onnx"
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(ArtifactError, match="ONNX Runtime cannot load"):
        Session(minilm_artifact._replace(folder=tmp_path / "broken"))


@pytest.mark.parametrize("change", [{"inputs": ("input_ids",)}, {"output": "last_hidden_state"}])
def test_a_graph_that_is_another(minilm_artifact: Artifact, change: dict[str, Any]) -> None:
    """A graph whose inputs or outputs differ from the manifest is refused."""
    manifest = minilm_artifact.manifest
    graph = manifest.graph._replace(**change)
    with pytest.raises(ArtifactError, match=r"has inputs .* the manifest says"):
        Session(minilm_artifact._replace(manifest=manifest._replace(graph=graph)))
