"""Static models against sentence-transformers' and model2vec's own vectors, and their artifacts."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file, save_file

from embedder.core.artifact import Artifact
from embedder.core.engine import Engine
from embedder.core.errors import EmptyInputError, InputTooLongError
from model_compiler.artifact.manifest import Choices
from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.hashes import verify_files
from model_compiler.graph.quantization import Precision
from model_compiler.model.static_folder import read_static_folder
from tests.model_compiler.conftest import Compile, Edit
from tests.model_compiler.goldens.static_models import (
    LIMIT,
    MODEL2VEC,
    SENTENCE_TRANSFORMERS,
    TEXTS,
    WIDTH,
    write_model2vec,
    write_sentence_transformers,
)

GOLDENS = np.load(Path(__file__).parents[1] / "goldens" / "static.npz")


def of_length_1(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32)


def embedded(artifact: Artifact, prompt: str | None = None) -> npt.NDArray[np.float32]:
    return Engine.load(artifact, truncate="right").embed(TEXTS, prompt=prompt).vectors


@pytest.mark.parametrize("prompt", ["query", "document"])
@pytest.mark.parametrize("name", SENTENCE_TRANSFORMERS)
def test_the_vectors_are_those_of_sentence_transformers(
    tmp_path: Path, compile_tiny: Compile, name: str, prompt: str
) -> None:
    """In fp32 each component is within 1e-5, in int8 the cosine is 0.999 and more."""
    folder = write_sentence_transformers(tmp_path / "static", **SENTENCE_TRANSFORMERS[name])
    wanted = of_length_1(GOLDENS[f"{name} {prompt}"])
    np.testing.assert_allclose(embedded(compile_tiny(folder), prompt), wanted, atol=1e-5)
    quantized = embedded(compile_tiny(folder, Precision.INT8), prompt)
    assert (quantized * wanted).sum(axis=1).min() > 0.999


@pytest.mark.parametrize("name", MODEL2VEC)
def test_the_vectors_are_those_of_model2vec(
    tmp_path: Path, compile_tiny: Compile, name: str
) -> None:
    """In fp32 each component is within 1e-5, for texts over its limits and unknown tokens too."""
    folder = write_model2vec(tmp_path / "static", **MODEL2VEC[name])
    wanted = of_length_1(GOLDENS[name])
    np.testing.assert_allclose(embedded(compile_tiny(folder)), wanted, atol=1e-5)
    quantized = embedded(compile_tiny(folder, Precision.INT8))
    assert (quantized * wanted).sum(axis=1).min() > 0.999


def test_a_text_of_unknown_tokens(tmp_path: Path, compile_tiny: Compile) -> None:
    """For model2vec it has no direction; for sentence-transformers it has that of the token."""
    text = "\u6771\u4eac"
    folder = write_model2vec(tmp_path / "model2vec")
    assert not Engine.load(compile_tiny(folder)).embed([text]).vectors.any()
    folder = write_sentence_transformers(tmp_path / "static")
    (vector,) = Engine.load(compile_tiny(folder)).embed([text]).vectors
    unknown = load_file(folder / "model.safetensors")["embedding.weight"][1]
    np.testing.assert_allclose(vector, unknown / np.linalg.norm(unknown), atol=1e-6)


@pytest.mark.parametrize("precision", Precision)
def test_a_text_has_the_same_vector_in_every_batch(
    tmp_path: Path, compile_tiny: Compile, precision: Precision
) -> None:
    """It is equal to the last bit."""
    engine = Engine.load(compile_tiny(write_sentence_transformers(tmp_path / "static"), precision))
    texts = [*TEXTS, *(" ".join(["date"] * count) for count in range(1, 70))]
    batch = engine.embed(texts).vectors
    alone = np.concatenate([engine.embed([text]).vectors for text in texts])
    assert np.array_equal(batch, alone)


def test_an_artifact_without_a_graph(tmp_path: Path, compile_tiny: Compile) -> None:
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


def test_vectors_that_are_cut(tmp_path: Path, compile_tiny: Compile) -> None:
    """Fewer dimensions are the first ones of the library's vector, brought to length 1."""
    folder = write_sentence_transformers(tmp_path / "static")
    engine = Engine.load(compile_tiny(folder, choices=Choices(dimensions=(8,))), truncate="right")
    vectors = engine.embed(TEXTS, dimensions=8, prompt="document").vectors
    wanted = of_length_1(GOLDENS["plain document"][:, :8])
    np.testing.assert_allclose(vectors, wanted, atol=1e-5)


def test_the_name_of_the_vector_space(
    tmp_path: Path, compile_tiny: Compile, edit_json: Edit
) -> None:
    """It is that of the vectors: equal for equal tables, another for another precision or limit."""
    plain = write_sentence_transformers(tmp_path / "plain")
    same = write_sentence_transformers(tmp_path / "same", new_files=False)
    cut = write_sentence_transformers(tmp_path / "cut", limit=LIMIT)
    names = [compile_tiny(folder).manifest.vector_space for folder in (plain, same, cut)]
    assert names[0] == names[1]
    assert names[0] != names[2]
    assert compile_tiny(plain, Precision.INT8).manifest.vector_space != names[0]
    short = write_model2vec(tmp_path / "short", config={"max_length": 10})
    first = compile_tiny(short).manifest
    assert first.max_characters == 10
    edit_json(short / "config.json", max_length=11)
    assert compile_tiny(short).manifest.vector_space != first.vector_space


def test_an_empty_text_and_a_long_one(tmp_path: Path, compile_tiny: Compile) -> None:
    """Both are refused like those of any model; the limit leaves out no special tokens."""
    folder = write_sentence_transformers(tmp_path / "static", limit=LIMIT)
    engine = Engine.load(compile_tiny(folder))
    assert engine.embed(["date " * LIMIT]).tokens == [LIMIT]
    with pytest.raises(InputTooLongError, match=f"has {LIMIT + 1} tokens"):
        engine.embed(["date " * (LIMIT + 1)])
    with pytest.raises(EmptyInputError, match="found no token"):
        engine.embed([" "])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"mapping": np.full(77, 20, np.int32)}, SourceError, "rows 20 to 20; embeddings has 20"),
        ({"mapping": np.full(77, -1, np.int64)}, SourceError, "the rows -1 to -1"),
        ({"mapping": np.zeros(77, np.float32)}, UnsupportedModelError, "F32; .* reads I32, I64"),
        ({"weights": np.ones(76, np.float32)}, SourceError, r"shape \[76\]; .* asks for \[77\]"),
        ({"weights": np.full(77, np.nan, np.float32)}, SourceError, "77 values that are NaN"),
        ({"embeddings": np.ones((20, 24), np.int8)}, UnsupportedModelError, "is of type I8"),
        ({"bias": np.ones(24, np.float32)}, UnsupportedModelError, "does not use: bias"),
    ],
)
def test_tensors_that_do_not_fit(
    tmp_path: Path,
    change: dict[str, npt.NDArray[np.generic]],
    error: type[Exception],
    message: str,
) -> None:
    """A tensor of another shape or type, or one without a meaning, is refused by name."""
    folder = write_model2vec(tmp_path / "static", shared=True)
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, **change}, folder / "model.safetensors")
    with pytest.raises(error, match=message):
        read_static_folder(folder).write(tmp_path)
