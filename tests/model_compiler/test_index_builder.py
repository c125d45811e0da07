"""The carried search index: written by the compiler, read by the embedder."""

import json
from pathlib import Path

import numpy as np
import pytest

from embedder.core.artifact import Artifact
from embedder.core.engine import Engine
from embedder.core.search import load_index
from model_compiler.errors import SourceError
from model_compiler.index_builder import EmbeddedRowsCache, build_index, main, read_texts
from tests.model_compiler.conftest import Compile
from tests.model_compiler.goldens.tiny_models import TEXTS, leave_prompts_out


@pytest.fixture
def artifact(tiny_folder: Path, compile_tiny: Compile) -> Artifact:
    return compile_tiny(tiny_folder)


def test_the_embedder_reads_the_index(artifact, tmp_path):
    """The index has the texts in order, each with the embedder's vector."""
    space = build_index(TEXTS, Path(artifact.folder), tmp_path / "index")
    index = load_index(tmp_path / "index", spaces=[space])
    engine = Engine.load(artifact, truncate="right")
    assert list(index.texts) == list(TEXTS)
    assert space == engine.vector_space()
    for position, text in enumerate(TEXTS):
        vector = engine.embed([text]).vectors[0]
        np.testing.assert_allclose(index.searched[position], vector, atol=1e-5)
        assert index.search(vector, 1)[0].position == position


def test_fewer_dimensions(artifact, tmp_path, tiny_folder):
    """Dimensions that the model does not offer are refused before anything is written."""
    arguments = ["--artifact", str(artifact.folder), "--output", str(tmp_path / "index")]
    texts = tmp_path / "texts.txt"
    texts.write_text("hello world\n\n  the date \n", encoding="utf-8")
    assert main([str(texts), *arguments, "--dimensions", "16"]) == 2
    assert not (tmp_path / "index").exists()
    assert main([str(texts), *arguments, "--quiet"]) == 0
    assert json.loads((tmp_path / "index" / "entries.json").read_text()) == [
        "hello world",
        "the date",
    ]


def test_a_cache_has_the_vectors_of_a_text_by_space_and_prompt(tiny_folder, compile_tiny, tmp_path):
    """Another prompt or number of dimensions reuses none; the same text is not computed again."""
    leave_prompts_out(tiny_folder, {"query": "parse: "})
    cache = EmbeddedRowsCache(tmp_path / "cache")
    folder = Path(compile_tiny(tiny_folder).folder)

    def built(name, texts=TEXTS, **options):
        build_index(texts, folder, tmp_path / name, **options)
        return np.load(tmp_path / name / "vectors.npy")

    plain = built("plain", cache=cache)
    prompted = built("asked", cache=cache, prompt="query")
    np.testing.assert_array_equal(prompted, built("alone", prompt="query"))
    assert not np.array_equal(plain, prompted)
    # What the cache has is taken as it is.
    with cache._file as file:
        file.execute("UPDATE vectors SET vector = zeroblob(length(vector))")
    assert not built("cached", cache=cache).any()
    cache.close()


def test_texts_from_json(tmp_path):
    """A JSON list keeps lines inside texts."""
    path = tmp_path / "texts.json"
    path.write_text('["one\\ntwo", "\\u6771"]')
    assert read_texts(path) == ["one\ntwo", "東"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", b'{"a": 1}', "must be a JSON list of strings"),
        ("a.json", b'["a", 1]', "must be a JSON list of strings"),
        ("a.json", b'["a", " "]', "the text at place 1 is empty"),
        ("a.json", b"[", "cannot be read"),
        ("a.txt", b"\xff\xfe", "cannot be read"),
    ],
)
def test_texts_that_are_none(tmp_path, name, content, message):
    """The error names a file with other content."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=message) as refused:
        read_texts(tmp_path / name)
    assert name in str(refused.value)


def test_errors_are_one_line(artifact, tmp_path, capsys):
    """A missing file, no texts and no artifact each give status 2 and one line."""
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    output = ["--output", str(tmp_path / "index")]
    for texts, folder, message in (
        ("gone.txt", artifact.folder, "gone.txt cannot be read: No such file"),
        (str(empty), artifact.folder, "There are no texts"),
        (str(empty), tmp_path, "There are no texts"),
    ):
        assert main([texts, "--artifact", str(folder), *output]) == 2
        assert message in capsys.readouterr().err
    empty.write_text("text")
    assert main([str(empty), "--artifact", str(tmp_path), *output]) == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path} is not an artifact")
