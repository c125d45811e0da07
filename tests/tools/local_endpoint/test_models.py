"""Finding and building artifacts and indexes."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from embedding_client import EmbeddingClient
from model_compiler.fidelity.measure import texts
from tests.fixtures.models_together import write_together
from tests.model_compiler.goldens.tiny_models import write_model
from tools.local_endpoint import models
from tools.local_endpoint.endpoint import endpoint
from tools.local_endpoint.models import (
    ModelError,
    _show_percentage,
    artifact_of,
    index_of,
    together_of,
)

FACTS = ["Water boils at 100 degrees.", "A violin has four strings.", "Rain is wet."]


@pytest.fixture
def facts(tmp_path):
    path = tmp_path / "facts.txt"
    path.write_text("\n".join(FACTS))
    return path


def test_an_artifact_is_used_unchanged(minilm_artifact):
    """A folder with a manifest is not compiled."""
    assert artifact_of(str(minilm_artifact.folder)) == minilm_artifact.folder.resolve()


@pytest.mark.slow
def test_a_folder_is_compiled_once(tmp_path, capfd, monkeypatch):
    """Also if two need it at the same time; it is used again, unless the folder has changed.

    A deploy compares the neighbors among 250 documents, a local compile among 100.
    """
    monkeypatch.setattr(models, "_SOURCES", ())  # the sources may change during the test
    folder = write_model(tmp_path / "mine")
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: artifact_of(str(folder), cache=tmp_path), range(2))
    assert first == second
    printed = capfd.readouterr().err
    assert re.fullmatch(rf"compiling {folder} \.\.\. \d+ s\n", printed)
    assert "documents" in first.with_name(f"{first.name}.log").read_text()
    manifest = json.loads((first / "manifest.json").read_text())
    assert manifest["model"]["architecture"] == "bert"
    assert manifest["fidelity"]["documents"] == 100
    assert manifest["fidelity"]["texts"] == len(texts())
    assert artifact_of(str(folder), cache=tmp_path) == first
    assert capfd.readouterr().err == ""
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError):  # it is compiled again
        artifact_of(str(folder), cache=tmp_path)


def test_a_terminal_shows_how_far_a_build_is(tmp_path, capfd, monkeypatch):
    """It is the last percentage of the log, in which bars overwrite their lines."""
    (log := tmp_path / "log").write_text("reading: 100%|##|\nmeasuring:  7%|#|\rmeasuring:  42%|#|")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    _show_percentage("compiling a", log)
    assert capfd.readouterr().err == "\rcompiling a ... 42% "


def test_a_folder_without_a_model_is_an_error(tmp_path):
    """The message has the compiler's error and the path of the log. No artifact is written."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"failed\. The log is") as raised:
        artifact_of(str(tmp_path / "empty"), cache=tmp_path / "cache")
    message = str(raised.value)
    assert "\nerror: " in message
    (log,) = (path for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock")
    assert str(log) in message
    assert log.read_text().strip() in message


def test_texts_become_an_index(minilm_artifact, facts, tmp_path):
    """A signed request finds a line by meaning. The index is built once."""
    index = index_of(str(facts), minilm_artifact.folder, cache=tmp_path / "cache")
    assert index_of(str(index), minilm_artifact.folder) == index.resolve()
    url, _ = endpoint(minilm_artifact.folder, index=index)
    with url, EmbeddingClient(url.url) as client:
        best, second = client.similar("Which instrument is this?", num_results=2)
    assert (best.text, best.index) == (FACTS[1], 1)
    assert best.score > second.score


def test_changed_texts_build_another_index(minilm_artifact, facts, tmp_path):
    """For example, a file with another line."""
    first = index_of(str(facts), minilm_artifact.folder, cache=tmp_path)
    facts.write_text("\n".join([*FACTS, "Snow is cold."]))
    assert index_of(str(facts), minilm_artifact.folder, cache=tmp_path) != first


def test_models_of_several_kinds_are_one_folder(tmp_path, facts):
    """It has the index of two of them; two models of one kind are refused by name."""
    artifacts, index = write_together(tmp_path, FACTS)
    given = {task: artifacts / task for task in ("embed", "sparse")}
    folder = together_of(given, cache=tmp_path / "cache")
    assert together_of(given, cache=tmp_path / "cache") == folder
    made = index_of(str(facts), folder, cache=tmp_path / "cache")
    for file in ("manifest.json", "vectors.npy", "postings.impacts.npy"):
        assert (made / file).read_bytes() == (index / file).read_bytes()
    with pytest.raises(ModelError, match=r"must be a sparse encoder, \[sparse\]; found a reranker"):
        together_of({**given, "sparse": artifacts / "rerank"}, cache=tmp_path / "cache")
