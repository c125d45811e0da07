"""A pooling without the prompt: the model attends to a prompt's tokens, and does not pool them."""

from pathlib import Path

import numpy as np
import pytest

from embedder.core.embedding_request import EmbedRequest, Inputs
from embedder.core.engine import Engine
from embedder.core.errors import InvalidFieldError
from model_compiler.graph.builder import Precision
from tests.model_compiler.goldens.prompt_models import MODELS, PROMPTS, write_model_of
from tests.model_compiler.goldens.tiny_models import TEXTS

GOLDEN = np.load(Path(__file__).resolve().parent / "goldens" / "prompts.npz")


@pytest.mark.parametrize("name", MODELS)
def test_vectors_are_those_of_sentence_transformers(tmp_path, compile_tiny, name):
    """Of each pooling, and of encoders with windows, projections and relative positions."""
    artifact = compile_tiny(write_model_of(tmp_path / "model", name))
    engine = Engine.load(artifact, truncate="right")
    for prompt in PROMPTS:
        vectors = engine.embed(TEXTS, prompt=prompt).vectors
        np.testing.assert_allclose(vectors, GOLDEN[f"{name} {prompt}"], atol=1e-6, rtol=0)


def test_equal_tokens_of_different_prompts(tmp_path, compile_tiny):
    """What the prompt is decides the vector, in int8, in a batch and in the cache too."""
    artifact = compile_tiny(write_model_of(tmp_path / "model", "mean"), Precision.INT8)
    engine = Engine.load(artifact, cache_entries=10)
    with_prompt = engine.embed(["hello", "a"], prompt="query")
    written_out = engine.embed(["parse: hello"])
    assert with_prompt.tokens[0] == written_out.tokens[0]
    assert written_out.cache_hits == 0
    assert not np.allclose(with_prompt.vectors[0], written_out.vectors[0], atol=1e-3)
    again = engine.embed(["hello"], prompt="query")
    assert again.cache_hits == 1
    alone = Engine.load(artifact).embed(["hello"], prompt="query")
    np.testing.assert_array_equal(again.vectors, alone.vectors)
    np.testing.assert_array_equal(again.vectors[0], with_prompt.vectors[0])


def test_token_ids_do_not_say_where_a_prompt_ends(tmp_path, compile_tiny):
    """Ids would pool what the same text with its prompt does not, so they are refused."""
    engine = Engine.load(compile_tiny(write_model_of(tmp_path / "model", "mean")))
    with pytest.raises(InvalidFieldError, match="do not say where a prompt ends: send texts"):
        engine.embed_request(EmbedRequest(Inputs(token_ids=[[2, 5, 3]])))
