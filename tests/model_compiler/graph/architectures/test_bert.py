"""Parts that only BERT and its kind have: pooling with padding, outliers, old names."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from embedder.core.session import Session, session_options
from model_compiler.errors import UnsupportedModelError
from model_compiler.graph.builder import Precision
from model_compiler.model.base import GRAPH_FILE
from model_compiler.model.compiled import WEIGHTS_FILE
from model_compiler.model.folder import read_model_folder
from tests.model_compiler.conftest import GOLDEN, changing, embed, padded
from tests.model_compiler.goldens.encoder_models import write_encoder
from tests.model_compiler.goldens.files import change_tensors, edit_json, respelled
from tests.model_compiler.goldens.tiny_models import TEXTS, write_model


def test_an_outlier_row_costs_other_rows_nothing(tiny_folder, compile_tiny):
    """A token with an embedding a million times larger does not change other texts."""
    before = embed(compile_tiny(tiny_folder, Precision.INT8), TEXTS)
    letter_x = 5 + 23
    with changing(tiny_folder) as tensors:
        tensors["embeddings.word_embeddings.weight"][letter_x] *= 1e6
    after = embed(compile_tiny(tiny_folder, Precision.INT8), TEXTS)
    without_x = [row for row, text in enumerate(TEXTS) if "x" not in text]
    np.testing.assert_allclose(after[without_x], before[without_x], atol=1e-6, rtol=0)


def test_old_names(tiny_folder, compile_tiny):
    """Gamma and beta, which the first files of BERT have, change no vector."""
    older_names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    change_tensors(tiny_folder, lambda tensors: respelled(tensors, older_names, {}))
    vectors = embed(compile_tiny(tiny_folder), TEXTS)
    np.testing.assert_allclose(vectors, GOLDEN["bert plain"], atol=1e-6, rtol=0)


def test_a_few_huge_channels_cost_the_others_nothing(tmp_path, compile_tiny):
    """With activations of 1e5 in two channels of every layer, int8 stays close to fp32."""
    folder = write_model(tmp_path / "model", config={"hidden_size": 96, "num_attention_heads": 4})
    with changing(folder) as tensors:
        for name, tensor in tensors.items():
            if name.endswith("LayerNorm.weight"):
                tensor[[7, 40]] *= 1e5
    exact, near = (embed(compile_tiny(folder, precision), TEXTS) for precision in Precision)
    assert (exact * near).sum(axis=1).min() > 0.99


def test_keys_that_change_nothing(tiny_folder):
    """rubert-tiny2's `emb_size`, where it is the width, what transformers 4 and unsloth wrote."""
    edit_json(tiny_folder / "config.json", unsloth_fixed=True, unsloth_version="2026.1.3")
    older_keys = {"emb_size": 32, "num_beams": 1, "temperature": 1.0, "torchscript": False}
    edit_json(tiny_folder / "config.json", **older_keys)
    assert read_model_folder(tiny_folder).architecture.hidden_size == 32
    edit_json(tiny_folder / "config.json", emb_size=16)
    with pytest.raises(UnsupportedModelError, match="emb_size is 16; the compiler can express 32"):
        read_model_folder(tiny_folder)


def test_a_classifier_is_refused(tmp_path, compile_tiny):
    """The head of a classifier is no part of an embedding model, so its tensors are named."""
    folder = write_encoder(tmp_path / "model", "xlm-roberta")
    head = {"classifier.dense.weight": np.ones((3, 3), np.float32)}
    change_tensors(folder, lambda found: {f"roberta.{name}": found[name] for name in found} | head)
    with pytest.raises(UnsupportedModelError, match=r"does not use: classifier\.dense\.weight"):
        compile_tiny(folder)


def test_layers_that_share_weights_store_them_once(tmp_path, compile_tiny):
    """ALBERT's file does not grow with its layers, also if one of them is kept in float32."""
    few, many = (
        write_encoder(
            tmp_path / f"{layers}", "albert", num_hidden_layers=layers, intermediate_size=1024
        )
        for layers in (2, 12)
    )
    artifacts = [compile_tiny(folder) for folder in (few, many)]
    sizes = [
        Path(artifact.graph_path).with_name(WEIGHTS_FILE).stat().st_size for artifact in artifacts
    ]
    assert sizes[0] == sizes[1] > 1024 * 32 * 4
    model = replace(read_model_folder(many), float32_layers=frozenset({5}))
    model.write(tmp_path)
    inputs = dict(zip(("input_ids", "attention_mask"), padded([[5, 9, 7]]), strict=True))
    session = onnxruntime.InferenceSession(
        tmp_path / GRAPH_FILE, session_options("none", threads=1)
    )
    exact = Session(artifacts[1]).run(*inputs.values())
    assert (session.run(None, inputs)[0] * exact).sum() > 0.95
