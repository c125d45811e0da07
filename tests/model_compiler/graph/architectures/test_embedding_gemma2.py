"""The parts that only EmbeddingGemma 2 has: a composite, the limit, and how heads are read."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embedder.core.engine import Engine
from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph import architectures
from model_compiler.graph.architectures.embedding_gemma2 import EmbeddingGemma2Config
from model_compiler.graph.builder import Precision
from model_compiler.model import folder as folder_module
from model_compiler.model.folder import read_model_folder
from tests.model_compiler.conftest import changing
from tests.model_compiler.goldens.embedding_gemma2_model import TEXTS, write_embedding_gemma2
from tests.model_compiler.goldens.files import edit_json

#: What sentence-transformers writes next to the published composite.
KINDS = ("text", "image", "audio", "video", "message")
MODALITIES = {
    modality: {"method": "forward", "method_output_name": "last_hidden_state"} for modality in KINDS
}


def parsed(folder: Path, **text: Any) -> EmbeddingGemma2Config:
    """Change keys of a model of texts, and parse its configuration."""
    edit_json(folder / "config.json", lambda config: {**config, **text})
    config = architectures.parse(ConfigFile(folder / "config.json"))
    assert isinstance(config, EmbeddingGemma2Config)
    return config


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a model of texts alone, which the test may change."""
    return write_embedding_gemma2(tmp_path / "model", text_only=True)


def test_the_limit_is_that_of_the_card(folder):
    """The published file has the positions of Gemma 4, and no file states the limit."""
    (folder / "sentence_bert_config.json").unlink()
    edit_json(folder / "tokenizer_config.json", model_max_length=10**30)
    assert parsed(folder, max_position_embeddings=262_144).max_positions == 8192
    assert read_model_folder(folder).max_tokens == 8192


def test_heads_follow_the_kind_where_none_are_listed(folder):
    """As in transformers, every n-th layer attends fully, and so does the last."""
    path = folder / "config.json"
    content = json.loads(path.read_text("utf-8"))
    del content["per_layer_config"], content["layer_types"]
    path.write_text(json.dumps({**content, "sliding_window_pattern": 4}), encoding="utf-8")
    config = parsed(folder)
    assert config.sliding == (True, True, True, False, True, False)
    assert (config.full.size, config.full.shared) == (512, 1)
    config = parsed(folder, global_head_dim=64, num_global_key_value_heads=2)
    assert (config.full.size, config.full.shared) == (64, 2)


def test_a_placeholder_is_padding_in_a_composite(tmp_path, compile_tiny):
    """The composite puts padding in its place, whatever row the table has for it."""
    folder = write_embedding_gemma2(tmp_path / "model")
    before = Engine.load(compile_tiny(folder)).embed(TEXTS[-1:]).vectors
    with changing(folder) as tensors:
        tensors["language_model.embed_tokens.weight"][259:262] = 7
    after = Engine.load(compile_tiny(folder)).embed(TEXTS[-1:]).vectors
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("gain", [0.0, 1e-3])
def test_int8_bears_outlier_channels(tmp_path, compile_tiny, gain):
    """A channel that one norm amplifies in the stream and others suppress costs little."""
    folder = write_embedding_gemma2(tmp_path / "model")
    with changing(folder) as tensors:
        for name, tensor in tensors.items():
            if not name.startswith("language_model."):
                continue
            if name.endswith(("input_layernorm.weight", "pre_feedforward_layernorm.weight")):
                tensor[17] = gain
            if name.endswith("post_attention_layernorm.weight"):
                tensor[17] = 10
            if name == "language_model.norm.weight":
                tensor[17] = 0.01
    exact, rounded = (
        Engine.load(compile_tiny(folder, precision)).embed(TEXTS[:-2]).vectors
        for precision in (Precision.FP32, Precision.INT8)
    )
    assert (exact * rounded).sum(axis=1).min() > 0.99


def test_other_inputs_than_texts_do_not_matter(folder, monkeypatch):
    """The published folder also takes images; a template must be known to add nothing."""
    path = folder / "sentence_bert_config.json"
    edit_json(
        path, lambda config: {**config, "modality_config": dict(list(MODALITIES.items())[:4])}
    )
    read_model_folder(folder)
    edit_json(path, modality_config=MODALITIES)
    for template in (None, "{{ messages }}"):
        if template:
            (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
        with pytest.raises(UnsupportedModelError, match=r"chat_template\.jinja changes each text"):
            read_model_folder(folder)
    templates = frozenset({sha256(b"{{ messages }}").hexdigest()})
    monkeypatch.setattr(folder_module, "PLAIN_TEMPLATES", templates)
    read_model_folder(folder)
