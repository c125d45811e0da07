"""Nomic BERT as its own code writes it; its vectors are tested with the other encoders."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from model_compiler.errors import SourceError
from model_compiler.files.config import ConfigFile
from model_compiler.graph import architectures
from model_compiler.model.folder import read_model_folder
from tests.model_compiler.conftest import Compile, Edit
from tests.model_compiler.goldens.encoder_models import LIMIT, sequences
from tests.model_compiler.goldens.nomic_bert_model import write_own_nomic_bert
from tests.model_compiler.graph.architectures.conftest import GOLDEN, embed_each


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the settings and the names of the model's own code."""
    return write_own_nomic_bert(tmp_path / "model")


def test_the_names_of_its_own_code(folder: Path, compile_tiny: Compile) -> None:
    """The vectors are the same with both spellings, and no code of `auto_map` is needed."""
    vectors = embed_each(compile_tiny(folder), sequences())
    np.testing.assert_allclose(vectors, GOLDEN["nomic_bert mean"], atol=1e-5, rtol=0)
    assert read_model_folder(folder).max_tokens == LIMIT


@pytest.mark.parametrize(("prefix", "head"), [("bert.", "cls.x"), ("nomic_bert.", "cls.x")])
def test_checkpoint_with_a_head(
    folder: Path, compile_tiny: Compile, prefix: str, head: str
) -> None:
    """A language model's prefix and head change no vector."""
    tensors = load_file(folder / "model.safetensors")
    prefixed = {f"{prefix}{name}": tensor for name, tensor in tensors.items()}
    save_file({**prefixed, head: np.ones(3, np.float32)}, folder / "model.safetensors")
    vectors = embed_each(compile_tiny(folder), sequences())
    np.testing.assert_allclose(vectors, GOLDEN["nomic_bert mean"], atol=1e-5, rtol=0)


def test_a_file_with_both_spellings(folder: Path, edit_json: Edit) -> None:
    """Equal values are read once, and the larger number of positions is the limit."""
    path = folder / "config.json"
    edit_json(path, hidden_size=32, num_hidden_layers=2, max_position_embeddings=99)
    parsed = architectures.parse(ConfigFile(path))
    assert (parsed.hidden_size, parsed.max_positions) == (32, LIMIT)
    edit_json(path, hidden_size=48)
    with pytest.raises(SourceError, match="n_embd must be the same as hidden_size, 48; found 32"):
        architectures.parse(ConfigFile(path))
