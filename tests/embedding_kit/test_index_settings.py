"""Test the settings of the vector index: dimensions of the model, and metadata keys."""

from pathlib import Path
from typing import Any, get_args

import botocore.session
import pytest

from embedder.core.engine import Engine
from embedder.core.errors import InvalidFieldError
from embedding_kit.image_identity import index_id
from embedding_kit.settings import (
    BatchSettings,
    ModelSettings,
    VectorIndexSettings,
    index_dimension,
    load_source,
)
from jobs.documents.chunking import Chunker
from model_compiler.source.catalog import CATALOG
from stacks.environment_file import load_environment

GEMMA = ModelSettings(name="google/embeddinggemma-300m", accept_license="gemma")


def test_the_dimension_is_the_models_full_one():
    """The catalog's, with or without the organization in the name."""
    assert index_dimension(GEMMA) == 768
    assert index_dimension(ModelSettings(name="all-MiniLM-L6-v2")) == 384
    for entry in CATALOG:
        terms: Any = "gemma" if entry.license.must_be_accepted else None
        for name in (entry.name, entry.short_name.upper()):
            known = ModelSettings(name=name, accept_license=terms).catalog
            assert (known.name, known.dimensions) == (entry.name, entry.dimensions)


def test_the_tokens_of_a_text_are_the_tokenizers(minilm_artifact):
    """The settings accept as many as the function does, for a model without a prompt."""
    tokenizer = Engine.load(minilm_artifact).request_tokenizer
    most = ModelSettings(name="all-MiniLM-L6-v2").catalog.text_tokens
    assert Chunker(tokenizer, tokens=most).settings[0] == 254
    with pytest.raises(InvalidFieldError):
        Chunker(tokenizer, tokens=most + 1)


def test_a_smaller_dimension_is_one_of_the_models():
    """Those of the catalog, and those that the settings of the model add."""
    assert index_dimension(GEMMA.model_copy(update={"index_dimension": 256})) == 256
    model = ModelSettings(name="nomic-embed-text-v1.5", dimensions=(192,), index_dimension=192)
    assert index_dimension(model) == 192


@pytest.mark.parametrize(
    "model",
    [
        ModelSettings(name="my/model"),
        ModelSettings(name="all-MiniLM-L6-v2", folder=Path("fine-tuned")),
    ],
)
def test_the_dimension_of_an_unknown_model_is_given(model):
    """A folder is not the catalog's model, although it has its name."""
    assert index_dimension(model.model_copy(update={"index_dimension": 100})) == 100
    with pytest.raises(ValueError, match=r"without index_dimension .* allowed: index_dimension"):
        index_dimension(model)


def test_loads_read_the_output_of_batches_unless_the_settings_say_otherwise():
    """Without a folder, there are no loads."""
    batch = BatchSettings(input="s3://documents", output="s3://vectors/a")
    assert load_source(VectorIndexSettings(), batch) == "s3://vectors/a"
    other = VectorIndexSettings(source="s3://other/b/")
    assert load_source(other, batch) == load_source(other, None) == "s3://other/b/"
    assert load_source(VectorIndexSettings(), None) is None


def test_the_languages_of_full_text_search_are_those_of_the_api():
    """As botocore's model has them, besides the analyzer of no language."""
    loader = botocore.session.Session().get_component("data_loader")
    shapes = loader.load_service_model("s3vectors", "service-2")["shapes"]
    language = shapes["TextSearchConfiguration"]["members"]["language"]["shape"]
    allowed = VectorIndexSettings.model_fields["text_search"].annotation
    assert {*get_args(get_args(allowed)[0])} == {"standard", *shapes[language]["enum"]}


_STANDBY = '[model]\nname = "all-MiniLM-L6-v2"\n[standby]\n'


def test_a_second_model_may_have_another_dimension(tmp_path):
    """Of the same model, too. The reranker serves next to both."""
    name = 'name = "nomic-embed-text-v1.5"\n'
    text = f"[model]\n{name}[standby]\nindex_dimension = 192\ndimensions = [192]\n{name}[index]\n"
    (tmp_path / "test.toml").write_text(f'{text}[reranker]\nname = "acme/ranker"\n')
    loaded = load_environment("test", folder=tmp_path)
    models = (loaded.model, loaded.standby)
    assert [index_dimension(model) for model in models] == [768, 192]
    assert {model.reranker for model in models} == {loaded.reranker}
    ids = {index_id(model, loaded.index, key_arn=None) for model in models}
    assert len(ids) == 2
