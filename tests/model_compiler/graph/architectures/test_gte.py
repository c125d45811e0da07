"""GTE as its own code writes it; its vectors are tested with the other encoders."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from model_compiler.errors import SourceError
from model_compiler.files.config import ConfigFile
from model_compiler.graph import architectures
from tests.model_compiler.conftest import Compile, Edit
from tests.model_compiler.goldens.encoder_models import sequences, write_encoder
from tests.model_compiler.goldens.gte_model import ARCTIC, write_own_gte
from tests.model_compiler.graph.architectures.conftest import GOLDEN, embed_each


def test_the_names_of_its_own_code(tmp_path: Path, compile_tiny: Compile) -> None:
    """Joined matrices, a stretched base and a head of weights give the reference's vectors."""
    folder = write_own_gte(tmp_path / "model")
    path = folder / "model.safetensors"
    save_file(load_file(path) | {"classifier.weight": np.ones((1, 32), np.float32)}, path)
    vectors = embed_each(compile_tiny(folder), sequences())
    np.testing.assert_allclose(vectors, GOLDEN["gte mean, stretched"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("changes", [{"rope_scaling": None, "rope_theta": 100}, ARCTIC])
def test_all_spellings_are_one_model(tmp_path: Path, changes: dict[str, Any]) -> None:
    """The settings of each program are read as those of transformers."""
    own = write_own_gte(tmp_path / "own", **changes) / "config.json"
    newer = write_encoder(tmp_path / "newer", "gte") / "config.json"
    assert architectures.parse(ConfigFile(own)) == architectures.parse(ConfigFile(newer))


def test_bases_that_contradict_each_other(tmp_path: Path, edit_json: Edit) -> None:
    """A base that is stated twice must be one number."""
    path = write_encoder(tmp_path / "model", "gte") / "config.json"
    edit_json(path, rope_parameters={"rope_theta": 100.0, "rope_type": "default"})
    assert architectures.parse(ConfigFile(path)).max_positions
    edit_json(path, rope_theta=50)
    with pytest.raises(SourceError, match=r"the same as in rope_parameters, 100\.0; found 50"):
        architectures.parse(ConfigFile(path))
