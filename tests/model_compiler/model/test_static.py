"""Reading the folder of a static model: limits, modules, settings and errors."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file, save_file

from embedder.core.artifact import Artifact
from embedder.core.engine import Engine
from embedder.core.errors import EmptyInputError, InputTooLongError
from model_compiler.artifact.manifest import Choices
from model_compiler.errors import CompilerError, SourceError
from model_compiler.files.folder import verify_files
from model_compiler.graph.builder import Precision
from model_compiler.model.folder import ModelFolder
from model_compiler.model.static import DEFAULT_MAX_TOKENS, read_static_folder
from tests.model_compiler.conftest import compile_folder, merged
from tests.model_compiler.goldens.files import change_tensors, edit_json
from tests.model_compiler.goldens.static_models import (
    LIMIT,
    MODEL2VEC,
    PROMPT,
    SENTENCE_TRANSFORMERS,
    TEXTS,
    WIDTH,
    write_model2vec,
    write_sentence_transformers,
)
from tests.model_compiler.goldens.tiny_models import write_model


@pytest.fixture
def static_folder(tmp_path: Path) -> Path:
    """Return a folder of sentence-transformers, which the test may change."""
    return write_sentence_transformers(tmp_path / "static")


def test_which_folders_are_static(tmp_path, static_folder):
    """A StaticEmbedding in modules.json, or without that file model2vec's config.json."""
    assert ModelFolder.read(static_folder).is_static
    assert ModelFolder.read(write_model2vec(tmp_path / "model2vec")).is_static
    bert = write_model(tmp_path / "bert")
    assert not ModelFolder.read(bert).is_static
    (bert / "modules.json").unlink()
    assert not ModelFolder.read(bert).is_static
    (bert / "config.json").unlink()
    assert not ModelFolder.read(bert).is_static


def test_modules_decide_how_a_folder_of_model2vec_is_read(tmp_path, static_folder):
    """model2vec writes both kinds of files: the folder is then sentence-transformers' first."""
    model2vec = write_model2vec(tmp_path / "model2vec")
    (static_folder / "config.json").write_bytes((model2vec / "config.json").read_bytes())
    model = read_static_folder(ModelFolder.read(static_folder))
    assert (model.family, model.left_out) == ("static", None)
    assert read_static_folder(ModelFolder.read(model2vec)).left_out == 1


def test_where_the_limit_comes_from(tmp_path, static_folder):
    """The tokenizer's truncation, model2vec's max_length, or the default."""
    assert read_static_folder(ModelFolder.read(static_folder)).max_tokens == DEFAULT_MAX_TOKENS
    cut = write_sentence_transformers(tmp_path / "cut", limit=LIMIT)
    assert read_static_folder(ModelFolder.read(cut)).max_tokens == LIMIT
    cases: tuple[tuple[dict[str, Any], int, int | None], ...] = (
        ({}, 512, 512),
        ({"max_length": 30}, 30, 30),
        ({"max_length": None}, 8192, None),
    )
    for number, (config, tokens, characters) in enumerate(cases):
        # The median token of this tokenizer has one character.
        model = read_static_folder(
            ModelFolder.read(write_model2vec(tmp_path / f"{number}", config=config))
        )
        assert (model.max_tokens, model.max_characters) == (tokens, characters)


def test_the_parts_around_the_table(static_folder, tmp_path):
    """Prompts come from the files, special tokens are not added, and Normalize is optional."""
    model = read_static_folder(ModelFolder.read(static_folder))
    assert model.prompts.texts == {"query": PROMPT, "document": ""}
    assert model.prompts.default == "document"
    assert b'"post_processor":null' in model.tokenizer.data
    assert not model.normalized
    normalized = write_sentence_transformers(tmp_path / "other", normalized=True)
    assert read_static_folder(ModelFolder.read(normalized)).normalized


@pytest.mark.parametrize(
    ("post", "left"),
    [
        (
            {"type": "RobertaProcessing", "trim_offsets": True, "add_prefix_space": False},
            b'{"add_prefix_space":false,"trim_offsets":true,"type":"ByteLevel","use_regex":true}',
        ),
        (
            {
                "type": "Sequence",
                "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing"}],
            },
            b'{"processors":[{"type":"ByteLevel"}],"type":"Sequence"}',
        ),
        ({"type": "Sequence", "processors": [{"type": "BertProcessing"}]}, b"null"),
    ],
)
def test_a_post_processor_keeps_what_it_does_to_offsets(static_folder, post, left):
    """Only its special tokens are dropped."""
    edit_json(static_folder / "tokenizer.json", post_processor=post)
    data = read_static_folder(ModelFolder.read(static_folder)).tokenizer.data
    assert b'"post_processor":' + left + b"," in data


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        (
            "modules.json",
            lambda value: [
                *value,
                merged(value[0], type="sentence_transformers.models.Dense", name="9"),
            ],
            "lists StaticEmbedding, Dense; after a StaticEmbedding the compiler can express a Nor",
        ),
        (
            "tokenizer.json",
            lambda value: merged(value, truncation={"max_length": 9, "direction": "Left"}),
            "direction 'Left'; .* express 'Right'",
        ),
        (
            "config_sentence_transformers.json",
            lambda value: merged(value, similarity_fn_name="dot"),
            'similarity_fn_name is "dot", .* no Normalize',
        ),
        (
            "tokenizer.json",
            lambda value: merged(value, truncation={"max_length": 0}),
            r"a max_length of at least 1; found {'max_length': 0}",
        ),
    ],
)
def test_settings_that_cannot_be_expressed(static_folder, file, change, message):
    """A module or a setting that would change the vectors, and a wrong limit, are refused."""
    edit_json(static_folder / file, change)
    with pytest.raises(CompilerError, match=message):
        read_static_folder(ModelFolder.read(static_folder))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"head_config": {"layers": 2}}, "does not know: head_config = "),
        ({"normalize": "yes"}, 'normalize must be true or false; found "yes"'),
        ({"max_length": 0}, "max_length must be an integer of at least 1 and .*; found 0"),
    ],
)
def test_settings_of_model2vec(tmp_path, config, message):
    """Unknown keys and wrong values are refused by name."""
    with pytest.raises(CompilerError, match=message):
        read_static_folder(ModelFolder.read(write_model2vec(tmp_path / "model2vec", config=config)))


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"linear.weight": np.ones((3, 3), np.float32)}, "no tensor 'embedding.weight'"),
        (
            {"embedding.weight": np.ones(77, np.float32)},
            r"has the shape \[77\]; it must be a table",
        ),
        ({"embeddings": np.ones((70, 4), np.float32)}, r"ids go up to 76, .* rows for 70 ids"),
        (
            {"embeddings": np.ones((77, 4), np.float32), "mapping": np.array(3, np.int64)},
            "ids go up to 76, .* rows for 1 ids",
        ),
        (None, r"model\.safetensors is missing"),
    ],
)
def test_tables_that_are_none(static_folder, tensors, message):
    """A file without a table, or with one of another rank or number of tokens, is refused."""
    path = static_folder / "model.safetensors"
    path.unlink()
    if tensors:
        save_file(tensors, path)
    with pytest.raises(SourceError, match=message):
        read_static_folder(ModelFolder.read(static_folder))


def test_the_report_accepts_int8(tmp_path, static_folder, capsys):
    """A static model is compared with its full precision like any other."""
    report = compile_folder(static_folder, tmp_path / "out")["fidelity"]
    assert report["cosine_min"] > 0.999
    assert report["batch_cosine_min"] == 1
    assert report["documents"] == 250
    assert "The model has no Normalize" in capsys.readouterr().err
    folder = write_model2vec(tmp_path / "model2vec")
    report = compile_folder(folder, tmp_path / "other")["fidelity"]
    assert report["cosine_min"] > 0.999


GOLDENS = np.load(Path(__file__).parents[1] / "goldens" / "static.npz")


def of_length_1(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32)


def embedded(artifact: Artifact, prompt: str | None = None) -> npt.NDArray[np.float32]:
    return Engine.load(artifact, truncate="right").embed(TEXTS, prompt=prompt).vectors


@pytest.mark.parametrize(
    ("name", "prompt"),
    [*product(SENTENCE_TRANSFORMERS, ("query", "document")), *((name, None) for name in MODEL2VEC)],
)
def test_the_vectors_are_the_librarys_own(tmp_path, compile_tiny, name, prompt):
    """In fp32 each component is within 1e-5, in int8 the cosine is 0.999 and more."""
    if name in MODEL2VEC:
        folder = write_model2vec(tmp_path / "static", **MODEL2VEC[name])
    else:
        folder = write_sentence_transformers(tmp_path / "static", **SENTENCE_TRANSFORMERS[name])
    golden = of_length_1(GOLDENS[f"{name} {prompt}" if prompt else name])
    np.testing.assert_allclose(embedded(compile_tiny(folder), prompt), golden, atol=1e-5)
    quantized = embedded(compile_tiny(folder, Precision.INT8), prompt)
    assert (quantized * golden).sum(axis=1).min() > 0.999


def test_a_text_of_unknown_tokens(tmp_path, compile_tiny):
    """For model2vec it has no direction; for sentence-transformers it has that of the token."""
    text = "\u6771\u4eac"
    folder = write_model2vec(tmp_path / "model2vec")
    assert not Engine.load(compile_tiny(folder)).embed([text]).vectors.any()
    folder = write_sentence_transformers(tmp_path / "static")
    (vector,) = Engine.load(compile_tiny(folder)).embed([text]).vectors
    unknown = load_file(folder / "model.safetensors")["embedding.weight"][1]
    np.testing.assert_allclose(vector, unknown / np.linalg.norm(unknown), atol=1e-6)


@pytest.mark.parametrize("precision", Precision)
def test_a_text_has_the_same_vector_in_every_batch(tmp_path, compile_tiny, precision):
    """It is equal to the last bit."""
    engine = Engine.load(compile_tiny(write_sentence_transformers(tmp_path / "static"), precision))
    texts = [*TEXTS, *(" ".join(["date"] * count) for count in range(1, 70))]
    batch = engine.embed(texts).vectors
    alone = np.concatenate([engine.embed([text]).vectors for text in texts])
    assert np.array_equal(batch, alone)


def test_an_artifact_without_a_graph(tmp_path, compile_tiny):
    """It has a table, its scales and a tokenizer, all with their hashes in the manifest."""
    folder = write_sentence_transformers(tmp_path / "static", normalized=True)
    artifact = compile_tiny(folder, Precision.INT8)
    manifest = artifact.manifest
    assert manifest.graph.runtime == "numpy"
    assert sorted(manifest.files) == ["embeddings.npy", "scales.npy", "tokenizer.bin"]
    hashes = {name: entry.sha256 for name, entry in manifest.files.items()}
    assert not verify_files(Path(artifact.folder), hashes)
    assert manifest.model.architecture == "static"
    assert manifest.vector_space.startswith("static@")
    assert manifest.dimensions == (WIDTH,)
    assert manifest.tokenizer.kind == "wordpiece"


def test_vectors_that_are_cut(tmp_path, compile_tiny):
    """Fewer dimensions are the first ones of the library's vector, brought to length 1."""
    folder = write_sentence_transformers(tmp_path / "static")
    engine = Engine.load(compile_tiny(folder, choices=Choices(dimensions=(8,))), truncate="right")
    vectors = engine.embed(TEXTS, dimensions=8, prompt="document").vectors
    golden = of_length_1(GOLDENS["plain document"][:, :8])
    np.testing.assert_allclose(vectors, golden, atol=1e-5)


def test_the_name_of_the_vector_space(tmp_path, compile_tiny):
    """It is that of the vectors: equal for equal tables, another for another precision or limit."""
    plain = write_sentence_transformers(tmp_path / "plain")
    same = write_sentence_transformers(tmp_path / "same", new_files=False)
    cut = write_sentence_transformers(tmp_path / "cut", limit=LIMIT)
    names = [compile_tiny(folder).manifest.vector_space for folder in (plain, same, cut)]
    assert names[0] == names[1]
    assert names[0] != names[2]
    assert compile_tiny(plain, Precision.INT8).manifest.vector_space != names[0]
    short = write_model2vec(tmp_path / "short", config={"max_length": 10})
    manifest = compile_tiny(short).manifest
    assert manifest.max_characters == 10
    edit_json(short / "config.json", max_length=11)
    assert compile_tiny(short).manifest.vector_space != manifest.vector_space


def test_an_empty_text_and_a_long_one(tmp_path, compile_tiny):
    """Both are refused like those of any model; the limit leaves out no special tokens."""
    folder = write_sentence_transformers(tmp_path / "static", limit=LIMIT)
    engine = Engine.load(compile_tiny(folder))
    assert engine.embed(["date " * LIMIT]).tokens == [LIMIT]
    with pytest.raises(InputTooLongError, match=f"has {LIMIT + 1} tokens"):
        engine.embed(["date " * (LIMIT + 1)])
    with pytest.raises(EmptyInputError, match="found no token"):
        engine.embed([" "])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mapping": np.full(77, 20, np.int32)}, "rows 20 to 20; embeddings has 20"),
        ({"mapping": np.full(77, -1, np.int64)}, "the rows -1 to -1"),
        ({"mapping": np.zeros(77, np.float32)}, "F32; .* reads I32, I64"),
        ({"weights": np.ones(76, np.float32)}, r"shape \[76\]; .* asks for \[77\]"),
        ({"weights": np.full(77, np.nan, np.float32)}, "77 values that are NaN"),
        ({"embeddings": np.ones((20, 24), np.int8)}, "is of type I8"),
        ({"bias": np.ones(24, np.float32)}, "does not use: bias"),
    ],
)
def test_tensors_that_do_not_fit(tmp_path, change, message):
    """A tensor of another shape or type, or one without a meaning, is refused by name."""
    folder = write_model2vec(tmp_path / "static", shared=True)
    change_tensors(folder, lambda tensors: tensors | change)
    with pytest.raises(CompilerError, match=message):
        read_static_folder(ModelFolder.read(folder)).write(tmp_path)
