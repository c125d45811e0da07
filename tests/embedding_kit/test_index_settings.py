"""Test the settings of the vector index: dimensions of the model, and metadata keys."""

from pathlib import Path

import pytest

from embedding_kit.environment_file import EnvironmentFileError, load_environment
from embedding_kit.settings import (
    BatchSettings,
    Model,
    VectorIndexSettings,
    index_dimension,
    load_source,
)
from embedding_kit.settings.model import known_dimensions
from model_compiler.source.catalog import CATALOG

KEY = "arn:aws:kms:us-east-1:123456789012:key/1111aaaa"
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


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"non_filterable": tuple("abcdefghij")}, "found: 10 keys; allowed: up to 9"),
        ({"filterable": tuple(map(str, range(50)))}, "found: 50 keys; allowed: up to 49"),
        ({"non_filterable": ("text",)}, "filterable or not, and the text never is; found: text"),
        ({"filterable": ("a",), "non_filterable": ("a",)}, "found: a; allowed: each key once"),
        ({"filterable": ("id", "embedding")}, "found: embedding, id; allowed: other columns"),
        ({"filterable": ("a", "a")}, "a value is given twice"),
        ({"filterable": ("",)}, "1"),
        ({"filterable": ("x" * 64,)}, "63"),
        ({"source": "vectors"}, "a folder in S3 is expected; found: vectors"),
        ({"source_key": KEY}, "found: source_key without source"),
    ],
)
def test_what_aws_or_a_load_would_refuse(settings, problem):
    """AWS takes 50 keys of 1 to 63 characters, ten not filterable, and the text is one."""
    with pytest.raises(ValueError, match=problem):
        VectorIndexSettings(**settings)


def test_the_largest_sets_of_keys_are_accepted():
    """With the text, they are what AWS takes."""
    others = tuple(map(str, range(40)))
    found = VectorIndexSettings(filterable=others, non_filterable=("x" * 63, *"abcdefgh"))
    assert len(found.metadata) == 49


def test_loads_read_the_output_of_batches_unless_the_settings_say_otherwise():
    """The key belongs to the folder. Without a folder, there are no loads."""
    batch = BatchSettings(input="s3://documents", output="s3://vectors/a", output_key=KEY)
    assert load_source(VectorIndexSettings(), batch) == ("s3://vectors/a", KEY)
    other = VectorIndexSettings(source="s3://other/b/")
    assert load_source(other, batch) == ("s3://other/b/", None)
    assert load_source(other, None).location == ("other", "b/")
    assert load_source(VectorIndexSettings(), None) is None


def test_an_environments_file_is_checked_against_its_model(tmp_path):
    """The error names the setting, what was found and what is allowed."""
    folder = tmp_path / "environments"
    folder.mkdir()
    model = '[model]\nname = "sentence-transformers/all-MiniLM-L6-v2"\n'
    (folder / "test.toml").write_text(f"{model}[index]\n")
    assert load_environment("test", folder=folder).index == VectorIndexSettings()
    (folder / "test.toml").write_text(f"{model}index_dimension = 100\n[index]\n")
    with pytest.raises(EnvironmentFileError, match=r"index_dimension = 100 .* allowed: 384"):
        load_environment("test", folder=folder)
    (folder / "test.toml").write_text(f"{model}index_dimension = 384\n")
    with pytest.raises(EnvironmentFileError, match=r"index_dimension of .* without \[index\]"):
        load_environment("test", folder=folder)
