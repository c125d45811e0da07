"""Test the settings of the vector index: dimensions of the model, and metadata keys."""

from pathlib import Path

import pytest

from embedding_kit.environment_file import EnvironmentFileError, load_environment
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
    """Without a folder, there are no loads."""
    batch = BatchSettings(input="s3://documents", output="s3://vectors/a")
    assert load_source(VectorIndexSettings(), batch) == "s3://vectors/a"
    other = VectorIndexSettings(source="s3://other/b/")
    assert load_source(other, batch) == load_source(other, None) == "s3://other/b/"
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


_GEMMA = 'name = "google/embeddinggemma-300m"\naccept_license = "gemma"\n'
_STANDBY = '[model]\nname = "all-MiniLM-L6-v2"\n[standby]\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('name = "bge-small-en-v1.5"\n', "found: [standby] without [index]; allowed: both tables"),
        (
            'name = "bge-small-en-v1.5"\n[index]\n[function]\npackage = "zip"\n',
            'found: [standby] with function.package = "zip"; allowed: function.package = "image"',
        ),
        (
            'name = "All-MiniLM-L6-v2"\n[index]\n',
            "found: All-MiniLM-L6-v2 in [model] and [standby]",
        ),
        (
            'name = "all-MiniLM-L6-v2"\nroute = "query"\n[index]\n',
            "found: all-MiniLM-L6-v2 in [model] and [standby]",
        ),
        ('name = "acme/own"\n[index]\n', "the full dimension of acme/own is known only when"),
        (
            'name = "bge-small-en-v1.5"\nindex_dimension = 300\n[index]\n',
            "found: index_dimension = 300 with bge-small-en-v1.5; allowed: 384",
        ),
        ('name = "google/embeddinggemma-300m"\n[index]\n', "standby: google/embeddinggemma-300m"),
        (
            f"{_GEMMA}[index]\n[function]\nmemory_mb = 128\n",
            "found: function.memory_mb = 128; allowed: 256 or more",
        ),
        ('name = "a/b"\nrevision = "main"\n[index]\n', 'standby.revision: found: "main"'),
        ('name = "a/b"\nfolder = "nowhere"\n[index]\n', "standby.folder: the path leads to no"),
        ('name = "a/b"\nreranker = {name = "a/b"}\n[index]\n', "standby.reranker: a reranker or"),
    ],
)
def test_a_second_model_that_cannot_work_is_refused_by_name(tmp_path, text, problem):
    """Its rules are those of the first one."""
    (tmp_path / "test.toml").write_text(_STANDBY + text)
    with pytest.raises(EnvironmentFileError) as caught:
        load_environment("test", folder=tmp_path)
    assert problem in str(caught.value)


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
