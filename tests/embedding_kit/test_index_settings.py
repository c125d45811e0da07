"""Test the settings of the vector index: dimensions of the model, and metadata keys."""

from pathlib import Path

import pytest

from embedding_kit.environment_file import load_environment
from embedding_kit.image_identity import index_id
from embedding_kit.settings import (
    BatchSettings,
    Model,
    VectorIndexSettings,
    index_dimension,
    load_source,
)
from embedding_kit.settings.model import known_dimensions
from model_compiler.source.catalog import CATALOG

GEMMA = Model(name="google/embeddinggemma-300m", accept_license="gemma")


def test_the_dimension_is_the_models_full_one():
    """The catalog's, with or without the organization in the name."""
    assert index_dimension(GEMMA) == 768
    assert index_dimension(Model(name="all-MiniLM-L6-v2")) == 384
    for entry in CATALOG:
        assert known_dimensions(entry.name) == entry.dimensions


def test_a_smaller_dimension_is_one_of_the_models():
    """Those of the catalog, and those that the settings of the model add."""
    assert index_dimension(GEMMA.model_copy(update={"index_dimension": 256})) == 256
    model = Model(name="all-MiniLM-L6-v2", dimensions=(192,), index_dimension=192)
    assert index_dimension(model) == 192
    other = GEMMA.model_copy(update={"index_dimension": 300})
    with pytest.raises(ValueError, match=r"found: index_dimension = 300 with google"):
        index_dimension(other)
    with pytest.raises(ValueError, match=r"allowed: 768, 512, 256, 128$"):
        index_dimension(other)


@pytest.mark.parametrize(
    "model", [Model(name="my/model"), Model(name="all-MiniLM-L6-v2", folder=Path("fine-tuned"))]
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


_STANDBY = '[model]\nname = "all-MiniLM-L6-v2"\n[standby]\n'


def test_a_second_model_may_have_another_dimension(tmp_path):
    """Of the same model, too. The reranker serves next to both."""
    text = 'index_dimension = 192\ndimensions = [192]\nname = "all-MiniLM-L6-v2"\n[index]\n'
    (tmp_path / "test.toml").write_text(f'{_STANDBY}{text}[reranker]\nname = "acme/ranker"\n')
    loaded = load_environment("test", folder=tmp_path)
    models = (loaded.model, loaded.standby)
    assert [index_dimension(model) for model in models] == [384, 192]
    assert {model.reranker for model in models} == {loaded.reranker}
    ids = {index_id(model, loaded.index, key_arn=None) for model in models}
    assert len(ids) == 2
