"""all-MiniLM-L6-v2, compiled, against sentence-transformers; and what every compile promises."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from embedder.core import session
from embedder.core.artifact import Artifact, Golden
from embedder.core.engine import Engine
from embedder.core.session import Session
from model_compiler.artifact.manifest import Choices
from model_compiler.errors import SourceError
from model_compiler.graph.builder import Precision
from tests.model_compiler.conftest import embed_each
from tests.model_compiler.goldens.encoder_models import write_encoder
from tests.model_compiler.goldens.files import edit_json
from tests.model_compiler.goldens.tiny_models import TOKENS, write_model

GOLDENS = Path(__file__).parent / "goldens"
MINILM_TEXTS = [*json.loads((GOLDENS / "minilm.json").read_text("utf-8"))["texts"].values()]
MINILM = np.load(GOLDENS / "minilm.npy")


def test_fp32_is_the_reference(minilm_artifact_fp32):
    """Each component of short and multilingual texts, and of those over the limit, is near."""
    vectors = embed_each(minilm_artifact_fp32, MINILM_TEXTS)
    np.testing.assert_allclose(vectors, MINILM, atol=1e-5, rtol=0)


def test_int8_is_near_the_reference(minilm_artifact):
    """The lowest cosine is at least 0.998, and the mean at least 0.999."""
    cosines = (embed_each(minilm_artifact, MINILM_TEXTS) * MINILM).sum(axis=1)
    assert cosines.min() >= 0.998
    assert cosines.mean() >= 0.999


@pytest.mark.parametrize(("has_kernel", "tolerance"), [(False, 1e-5), (True, 5e-3)])
def test_the_manifest_says_what_was_measured(minilm_artifact, monkeypatch, has_kernel, tolerance):
    """The manifest has the report and the golden heads, which match the embedder's vectors.

    They are the first graph's; a release check allows twice what the other differs by.
    """
    monkeypatch.setattr(session, "has_kernel", lambda: has_kernel)
    manifest = minilm_artifact.manifest
    assert manifest.model.name == "sentence-transformers/all-MiniLM-L6-v2"
    assert manifest.model.license == "apache-2.0"
    assert manifest.tokenizer.kind == "wordpiece"
    assert manifest.fidelity["cosine_min"] >= 0.998
    assert manifest.fidelity["neighbor_overlap"] >= 0.95
    engine = Engine.load(minilm_artifact)
    for golden in manifest.golden:
        assert isinstance(golden, Golden)
        vector = engine.embed([golden.text], prompt=golden.prompt).vectors[0]
        np.testing.assert_allclose(vector[:8], golden.embedding_head, atol=tolerance)


def test_unigram_is_served_from_tables(tiny_folder, compile_tiny):
    """A model of BERT's family with SentencePiece's tokenizer has the vectors of its ids."""
    words = ["▁" + token for token in TOKENS[5:] if token.isalpha()]
    pieces = [*TOKENS[:5], *words, *TOKENS[5 + len(words) :]]
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
    edit_json(
        tiny_folder / "tokenizer.json",
        model={
            "type": "Unigram",
            "unk_id": 1,
            "vocab": [[piece, -float(rank)] for rank, piece in enumerate(pieces)],
            "byte_fallback": False,
        },
        normalizer=None,
        pre_tokenizer={
            "type": "Sequence",
            "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace],
        },
    )
    artifact = compile_tiny(tiny_folder)
    assert artifact.manifest.tokenizer.kind == "unigram"
    check_ids(artifact, tiny_folder / "tokenizer.json")


def check_ids(artifact: Artifact, path: Path) -> None:
    """Check that an artifact's tokenizer gives the library's ids."""
    ids = tokenizers.Tokenizer.from_file(str(path)).encode("hello the date").ids
    assert len(set(ids)) > 3
    expected = Session(artifact).run(np.array([ids]), np.ones((1, len(ids)), np.int64))
    vectors = Engine.load(artifact).embed(["hello the date"]).vectors
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_a_tokenizer_that_the_fast_ones_do_not_cover(tiny_folder, compile_tiny):
    """Unigram behind BERT's normalizer is served by the library, and the manifest says why."""
    model = {
        "type": "Unigram",
        "unk_id": 1,
        "vocab": [[token.removeprefix("##"), -float(rank)] for rank, token in enumerate(TOKENS)],
        "byte_fallback": False,
    }
    edit_json(tiny_folder / "tokenizer.json", model=model, pre_tokenizer={"type": "Whitespace"})
    artifact = compile_tiny(tiny_folder)
    entry = artifact.manifest.tokenizer
    assert (entry.kind, entry.file) == ("tokenizers", "tokenizer.json")
    assert "normalizer BertNormalizer" in (entry.reason or "")
    check_ids(artifact, Path(artifact.folder, entry.file))


@pytest.mark.slow
@pytest.mark.parametrize("precision", Precision)
def test_same_input_same_bytes(tmp_path, compile_tiny, precision):
    """Two compiles, the second in another process and of a copy elsewhere, give the same files."""
    artifact = compile_tiny(write_model(tmp_path / "tiny"), precision)
    copy = write_model(tmp_path / "elsewhere" / "tiny")
    output = tmp_path / "second"
    command = [sys.executable, "-m", "model_compiler", "--unmeasured", "--quiet"]
    subprocess.run(
        [*command, str(copy), "--output", str(output), "--precision", precision],
        check=True,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join(sys.path)},
    )
    names = sorted(path.name for path in Path(artifact.folder).iterdir())
    assert names == sorted(path.name for path in output.iterdir())
    for name in names:
        assert Path(artifact.folder, name).read_bytes() == (output / name).read_bytes(), name


def test_prompts_come_from_the_models_files(tmp_path, compile_tiny):
    """The manifest has them by name; without a default, the document's prompt is the default."""
    folder = write_model(tmp_path / "model", new_files=True)
    manifest = compile_tiny(folder).manifest
    assert manifest.prompts == {"query": "parse: ", "document": ""}
    assert manifest.default_prompt == "document"
    chosen = compile_tiny(folder, choices=Choices(default_prompt="query"))
    assert chosen.manifest.default_prompt == "query"
    with pytest.raises(SourceError, match="'title' is not one of the model's prompts: document, q"):
        compile_tiny(folder, choices=Choices(default_prompt="title"))


def test_dimensions_are_checked(tmp_path, compile_tiny):
    """All dimensions are always allowed; more than the model has, or 0, are rejected."""
    folder = write_model(tmp_path / "model")
    assert compile_tiny(folder).manifest.dimensions == (32,)
    assert compile_tiny(folder, choices=Choices(dimensions=(8, 16))).manifest.dimensions == (
        32,
        16,
        8,
    )
    for dimensions in ((64,), (16, 0)):
        with pytest.raises(SourceError, match="not all between 1 and the model's 32"):
            compile_tiny(folder, choices=Choices(dimensions=dimensions))


def test_a_folder_whose_name_is_no_unicode(tmp_path, compile_tiny):
    """Its name in the manifest has a replacement for the byte that no text can hold."""
    artifact = compile_tiny(write_model(tmp_path / os.fsdecode(b"tiny\xff")))
    assert artifact.manifest.model.name == "tiny\ufffd"


def test_int8_that_nothing_verified(tmp_path, compile_tiny, capsys):
    """Without the report, a note says so of each family but BERT, which MiniLM's weights verify."""
    compile_tiny(write_model(tmp_path / "bert"), Precision.INT8)
    compile_tiny(write_encoder(tmp_path / "exact", "mpnet"))
    assert "unverified" not in capsys.readouterr().err
    compile_tiny(write_encoder(tmp_path / "mpnet", "mpnet"), Precision.INT8)
    assert "note: int8 of mpnet is unverified on real weights" in capsys.readouterr().err


def test_the_name_of_a_modules_folder_means_nothing(tmp_path, compile_tiny):
    """Another module may have the same."""
    twice = [(32, True, "activation.Tanh")] * 2
    folder = write_model(tmp_path / "model", dense=twice)
    space = compile_tiny(folder).manifest.vector_space
    (folder / "a").mkdir()
    (folder / "3_Dense").rename(folder / "a" / "2_Dense")
    edit_json(
        folder / "modules.json",
        lambda modules: [
            {**module, "path": module["path"].replace("3_Dense", "a/2_Dense")} for module in modules
        ],
    )
    assert compile_tiny(folder).manifest.vector_space == space
