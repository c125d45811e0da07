"""The benchmark's models compute the same as the models that they replace."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.model_compiler.goldens.gemma3_model import sequences, write_gemma3
from tools.bench.plain_graph import write_plain_graph

GOLDENS = Path(__file__).resolve().parents[2] / "model_compiler" / "goldens"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the small replica, which tests must not change."""
    return write_gemma3(tmp_path_factory.mktemp("replica") / "model")


def test_the_same_seed_gives_the_same_replica(folder: Path, tmp_path: Path) -> None:
    """All files have the same bytes."""
    again = write_gemma3(tmp_path / "again")
    files = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    assert len(files) > 8
    assert [(folder / file).read_bytes() for file in files] == [
        (again / file).read_bytes() for file in files
    ]


def test_a_replica_that_is_there_is_kept(folder: Path) -> None:
    """An existing folder is not written again."""
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert write_gemma3(folder) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


def test_the_plain_graph_is_the_model(folder: Path, tmp_path: Path) -> None:
    """Its vectors are those of transformers."""
    write_plain_graph(folder, tmp_path)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    with np.load(GOLDENS / "gemma3.npz") as golden:
        for length, ids in sequences().items():
            feed = {"input_ids": ids[None], "attention_mask": np.ones((1, length), np.int64)}
            (vectors,) = session.run(None, feed)
            np.testing.assert_allclose(vectors[0], golden[str(length)], atol=1e-5)
