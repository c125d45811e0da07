"""Models as their own code writes them; their vectors are tested with the other families."""

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from model_compiler.errors import SourceError
from model_compiler.files.config import ConfigFile
from model_compiler.graph import architectures
from model_compiler.model.folder import read_model_folder
from tests.model_compiler.conftest import GOLDEN, embed_each
from tests.model_compiler.goldens.encoder_models import LIMIT, sequences, write_encoder
from tests.model_compiler.goldens.files import edit_json
from tests.model_compiler.goldens.gte_model import ARCTIC, write_own_gte
from tests.model_compiler.goldens.llama_model import TEXTS, write_voyage
from tests.model_compiler.goldens.nomic_bert_model import write_own_nomic_bert


@pytest.mark.parametrize(
    ("write", "prefix", "head", "golden"),
    [
        # Joined matrices, a stretched base and a head of weights.
        (write_own_gte, "", "classifier.weight", "gte mean, stretched"),
        (write_own_nomic_bert, "", "", "nomic_bert mean"),
        (write_own_nomic_bert, "bert.", "cls.x", "nomic_bert mean"),
        (write_own_nomic_bert, "nomic_bert.", "cls.x", "nomic_bert mean"),
    ],
)
def test_the_names_of_its_own_code(*, tmp_path, compile_tiny, write, prefix, head, golden):
    """The vectors are the same with both spellings, and no code of `auto_map` is needed."""
    folder = write(tmp_path / "model")
    path = folder / "model.safetensors"
    tensors = {f"{prefix}{name}": tensor for name, tensor in load_file(path).items()}
    save_file(tensors | ({head: np.ones((1, 32), np.float32)} if head else {}), path)
    vectors = embed_each(compile_tiny(folder), sequences())
    np.testing.assert_allclose(vectors, GOLDEN[golden], atol=1e-5, rtol=0)
    assert read_model_folder(folder).max_tokens == LIMIT


def test_voyages_own_code(tmp_path, compile_tiny):
    """Its class projects each token's vector, and the graph their mean."""
    vectors = embed_each(compile_tiny(write_voyage(tmp_path / "voyage")[0]), list(TEXTS.values()))
    np.testing.assert_allclose(vectors, GOLDEN["qwen3 own code"], atol=1e-6, rtol=0)


@pytest.mark.parametrize("changes", [{"rope_scaling": None, "rope_theta": 100}, ARCTIC])
def test_all_spellings_are_one_model(tmp_path, changes):
    """The settings of each program are read as those of transformers."""
    own = write_own_gte(tmp_path / "own", **changes) / "config.json"
    newer = write_encoder(tmp_path / "newer", "gte") / "config.json"
    assert architectures.parse(ConfigFile(own)) == architectures.parse(ConfigFile(newer))


def test_what_is_stated_twice_must_be_one_number(tmp_path):
    """Equal values are read once, and the larger number of positions is the limit."""
    path = write_own_nomic_bert(tmp_path / "nomic") / "config.json"
    edit_json(path, hidden_size=32, num_hidden_layers=2, max_position_embeddings=99)
    parsed = architectures.parse(ConfigFile(path))
    assert (parsed.hidden_size, parsed.max_positions) == (32, LIMIT)
    edit_json(path, hidden_size=48)
    with pytest.raises(SourceError, match="n_embd must be the same as hidden_size, 48; found 32"):
        architectures.parse(ConfigFile(path))
    path = write_encoder(tmp_path / "gte", "gte") / "config.json"
    edit_json(path, rope_parameters={"rope_theta": 100.0, "rope_type": "default"})
    assert architectures.parse(ConfigFile(path)).max_positions
    edit_json(path, rope_theta=50)
    with pytest.raises(SourceError, match=r"the same as in rope_parameters, 100\.0; found 50"):
        architectures.parse(ConfigFile(path))
