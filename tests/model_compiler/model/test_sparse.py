"""Sparse encoders: their vectors are sentence-transformers' own, and unknown ones are refused."""

from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file, save_file

from embedder.core.artifact import GoldenTerms, load_artifact
from embedder.core.engine import Engine
from embedder.core.errors import ArtifactError
from embedder.core.reranker import Reranker
from embedder.core.sparse import BoundedSession, SparseEncoder, TokenWeights
from model_compiler.artifact.manifest import Choices
from model_compiler.compile import CompileOptions
from model_compiler.errors import CompilerError, SourceError
from model_compiler.graph.builder import Precision
from model_compiler.model.folder import ModelFolder
from model_compiler.model.sparse import read_sparse_folder
from model_compiler.routes import compile_routes, routes_of
from model_compiler.source.find import find_source
from tests.model_compiler.conftest import compile_folder
from tests.model_compiler.goldens.files import (
    change_tensors,
    edit_json,
    read_json,
    respelled,
    write_json,
)
from tests.model_compiler.goldens.gte_model import respell
from tests.model_compiler.goldens.reranker_models import write_reranker
from tests.model_compiler.goldens.setting_changes import change_file
from tests.model_compiler.goldens.sparse_models import (
    LEXICAL,
    ROUTER,
    TEXTS,
    VARIANTS,
    write_lexical,
    write_sparse,
    write_sparse_router,
)

GOLDEN = np.load(Path(__file__).parents[1] / "goldens/sparse.npz")


def encoded(encoder: SparseEncoder, prompt: str | None = None) -> npt.NDArray[np.float32]:
    """Return the vectors of all texts, float32 [texts, vocabulary]."""
    return dense(encoder, encoder.embed(TEXTS, prompt=prompt, truncate="right").vectors)


def dense(encoder: SparseEncoder, vectors: Any) -> npt.NDArray[np.float32]:
    rows = np.zeros((len(vectors), encoder.limits.full_dimensions), np.float32)
    for row, vector in zip(rows, vectors, strict=True):
        row[vector.indices] = vector.values
    return rows


@pytest.mark.parametrize("variant", VARIANTS)
def test_vectors_are_the_models_own(tmp_path, compile_tiny, variant):
    """In float32, each weight is within 1e-5, of texts over the limit too."""
    artifact = compile_tiny(write_sparse(tmp_path / "model", **VARIANTS[variant]))
    encoder = SparseEncoder.load(artifact)
    for side in ("query", "document"):
        golden = GOLDEN[f"{variant}/{side}"]
        assert encoded(encoder, side) == pytest.approx(golden, abs=1e-5, rel=1e-5)
        assert 0 < (golden > 0).mean() < 1
    assert max(encoder.embed(TEXTS, truncate="right").tokens) == artifact.manifest.max_tokens


def test_bge_m3s_sparse_head(tmp_path, compile_tiny):
    """Weights are within 1e-5 of FlagEmbedding's formula, and special tokens have none."""
    encoder = SparseEncoder.load(compile_tiny(write_lexical(tmp_path / "model")))
    golden = GOLDEN[LEXICAL]
    assert encoded(encoder) == pytest.approx(golden, abs=1e-5, rel=1e-5)
    assert (golden[:, 5:] > 0).any(axis=1).sum() > len(TEXTS) // 2


@pytest.mark.parametrize("head", ["missing", "a pickle"])
def test_bge_m3s_head_must_be_converted(tmp_path, head):
    """Without it a plain folder is of no known kind; a pickle is refused with the conversion."""
    folder = write_lexical(tmp_path / "model")
    path = folder / "sparse_linear.safetensors"
    message = "has no modules.json"
    if head == "a pickle":
        path.rename(path.with_suffix(".pt"))
        message = r"sparse_linear\.pt is a pickle.*For sparse vectors, convert it with: python -c"
    else:
        path.unlink()
    with pytest.raises(SourceError, match=message):
        compile_folder(folder, tmp_path / "out")


def test_bge_m3s_head_is_xlm_robertas(tmp_path):
    """Other encoders with such a file are not known; with modules, a folder is what they say."""
    folder = write_lexical(tmp_path / "model")
    edit_json(folder / "config.json", model_type="roberta")
    with pytest.raises(CompilerError, match="'roberta'; it can of xlm-roberta"):
        read_sparse_folder(ModelFolder.read(folder))
    (folder / "modules.json").write_text("[]")
    assert not ModelFolder.read(folder).is_sparse


def test_gte_in_its_own_spelling(tmp_path, compile_tiny):
    """The head has another name there, and the class is stated."""
    folder = write_sparse(tmp_path / "model", family="gte")
    respell(folder)
    code = {"AutoModel": "modeling.NewModel", "AutoModelForMaskedLM": "modeling.NewForMaskedLM"}
    edit_json(folder / "config.json", model_type="new", auto_map=code)
    vectors = encoded(SparseEncoder.load(compile_tiny(folder)))
    assert vectors == pytest.approx(GOLDEN["gte/document"], abs=1e-5, rel=1e-5)
    edit_json(folder / "config.json", auto_map={**code, "AutoModelForMaskedLM": "modeling.Other"})
    with pytest.raises(CompilerError, match=r"auto_map\.AutoModelForMaskedLM must name NewFor"):
        read_sparse_folder(ModelFolder.read(folder))


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize(
    "variant", ["bert", "bert, sum", "gte", "modernbert", "xlm-roberta", LEXICAL]
)
def test_a_vector_does_not_depend_on_other_texts(tmp_path, compile_tiny, variant, precision):
    """A text has the same weights alone, with others and in another order, to the last bit."""
    folder = tmp_path / "model"
    if variant == LEXICAL:
        write_lexical(folder)
    else:
        write_sparse(folder, **VARIANTS[variant])
    artifact = compile_tiny(folder, precision)
    encoder = SparseEncoder.load(artifact, truncate="right")
    texts = [*TEXTS, *(f"{word} world" for word in "abcdefghijklmnopq")]
    together = dense(encoder, encoder.embed(texts).vectors)
    alone = [dense(encoder, encoder.embed([text]).vectors)[0] for text in texts]
    assert np.array_equal(together, alone)
    assert np.array_equal(dense(encoder, encoder.embed(texts[::-1]).vectors)[::-1], together)


def test_the_logits_of_a_run_are_bounded():
    """A batch of 64 MB of logits or less is one run; of a longer text, each is a run."""

    class Recorder:
        graph_file = "model.onnx"

        def __init__(self) -> None:
            self.shapes: list[tuple[int, ...]] = []

        def run(
            self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
        ) -> npt.NDArray[np.float32]:
            self.shapes.append(input_ids.shape)
            return (input_ids * attention_mask)[:, :3].astype(np.float32)

    recorder = Recorder()
    session = BoundedSession(recorder, width=1 << 14)  # 1,024 tokens
    for shape in ((8, 128), (9, 128), (2, 2000)):
        ids = np.arange(np.prod(shape)).reshape(shape)
        assert np.array_equal(session.run(ids, np.ones_like(ids)), ids[:, :3])
    assert recorder.shapes == [(8, 128), (8, 128), (1, 128), (1, 2000), (1, 2000)]


def test_a_router_gives_queries_a_table(tmp_path):
    """Its routes are two artifacts of one space; that of queries has the table's weights."""
    folder = write_sparse_router(tmp_path / "model")
    options = CompileOptions(precision=Precision.INT8, thresholds=None, progress=False)
    source = find_source(str(folder))
    contents = compile_routes(source, routes_of(source.folder), tmp_path / "out", options)
    query, document = (load_artifact(tmp_path / "out" / side) for side in ("query", "document"))
    assert query.manifest.space == document.manifest.space
    assert contents["query"]["fidelity"]["alignment"]["texts"] == 250
    assert query.manifest.graph.runtime == "numpy"
    assert query.manifest.precision == "fp32"
    encoder = SparseEncoder.load(query)
    assert np.array_equal(encoded(encoder), GOLDEN[f"{ROUTER}/query"])
    rows, golden_rows = encoded(SparseEncoder.load(document)), GOLDEN[f"{ROUTER}/document"]
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(golden_rows, axis=1)
    assert ((rows * golden_rows).sum(axis=1) / lengths).min() > 0.98


def test_the_manifest_of_a_sparse_encoder(tmp_path):
    """It has the task, the vocabulary's size, a space without dimensions and golden weights."""
    folder = write_sparse(tmp_path / "model")
    compile_folder(folder, tmp_path / "out", precision=Precision.FP32)
    artifact = load_artifact(tmp_path / "out")
    manifest = artifact.manifest
    assert (manifest.task, manifest.dimensions) == ("sparse", (77,))
    assert manifest.space == manifest.vector_space
    assert manifest.fidelity["cosine_min"] == 1
    golden = manifest.golden[0]
    assert isinstance(golden, GoldenTerms)
    vector = SparseEncoder.load(artifact).embed([golden.text]).vectors[0]
    weight_by_index = dict(zip(vector.indices.tolist(), vector.values.tolist(), strict=True))
    best = sorted(weight_by_index, key=lambda index: -weight_by_index[index])[: len(golden.indices)]
    assert [weight_by_index[index] for index in best] == pytest.approx(golden.values, abs=1e-5)


def test_weights_are_pruned():
    """The largest ones are kept in the order of their tokens, of equal ones the first."""
    vector = TokenWeights(np.array([2, 5, 7, 9], np.uint32), np.array([1, 3, 1, 2], np.float32))
    for top_k, threshold, indices in ((3, None, [2, 5, 9]), (None, 2, [5, 9]), (1, 2, [5])):
        pruned = vector.pruned(top_k=top_k, threshold=threshold)
        assert pruned.indices.tolist() == indices
        assert len(pruned.values) == len(indices)


def test_each_kind_refuses_the_others_artifact(tmp_path, tiny_folder, compile_tiny):
    """An engine of dense vectors, a reranker and a sparse encoder take their own."""
    engines = {
        "an embedding model": (Engine, tiny_folder),
        "a reranker": (Reranker, write_reranker(tmp_path / "ranker")),
        "a sparse encoder": (SparseEncoder, write_sparse(tmp_path / "model")),
    }
    artifacts = {kind: compile_tiny(folder) for kind, (_, folder) in engines.items()}
    for (kind, (loaded, _)), other in product(engines.items(), artifacts):
        refused = pytest.raises(ArtifactError, match=f"is {other}; {kind}'s artifact is needed")
        with nullcontext() if kind == other else refused:
            loaded.load(artifacts[other])
    choices = Choices(dimensions=(8,))
    with pytest.raises(SourceError, match="no other dimensions to choose"):
        compile_tiny(tmp_path / "model", choices=choices)


def test_a_table_that_is_not_the_manifests_is_refused(tmp_path):
    """The embedder checks the weights that it multiplies with."""
    folder = write_sparse_router(tmp_path / "model")
    options = CompileOptions(thresholds=None, progress=False)
    source = find_source(str(folder))
    compile_routes(source, routes_of(source.folder), tmp_path / "both", options)
    (tmp_path / "both" / "query").rename(tmp_path / "out")
    table = tmp_path / "out" / "weights.npy"
    size = table.stat().st_size
    np.save(table, np.zeros(77, np.int32))
    assert table.stat().st_size == size
    with pytest.raises(ArtifactError, match=r"is a table of int32 \[77\]"):
        SparseEncoder.load(load_artifact(tmp_path / "out"))
    table.write_bytes(b"x" * size)
    with pytest.raises(ArtifactError, match="cannot be read as an array"):
        SparseEncoder.load(load_artifact(tmp_path / "out"))


POOLING, ST = "1_SpladePooling/config.json", "config_sentence_transformers.json"
AUTO_ENCODER = "sentence_transformers.sparse_encoder.modules.sparse_auto_encoder.SparseAutoEncoder"
CHANGES: list[tuple[str, Any, str]] = [
    ("config.json", {"model_type": "mpnet"}, "a sparse encoder of model_type 'mpnet'"),
    ("config.json", {"tie_word_embeddings": False}, "tie_word_embeddings is false; the compiler"),
    ("config.json", {"hidden_act": "mish"}, "hidden_act 'mish' is not a supported"),
    (POOLING, {"pooling_strategy": "mean"}, "pooling_strategy must be max or sum; found"),
    (POOLING, {"activation_function": "tanh"}, "activation_function must be relu or log1p_relu"),
    (POOLING, {"embedding_dimension": 12}, "embedding_dimension is 12; the compiler can"),
    (POOLING, {"k": 12}, "does not know: k = 12"),
    (ST, {"max_active_dims": 12}, "does not know: max_active_dims = 12"),
    (
        "sentence_bert_config.json",
        {"transformer_task": "feature-extraction"},
        "transformer_task is",
    ),
    # Other kinds of models.
    ("adapter_config.json", {}, "has an adapter"),
    (
        "modules.json",
        lambda value: [*value, {"name": "2", "path": "2_Auto", "type": AUTO_ENCODER}],
        "lists Transformer, SpladePooling, SparseAutoEncoder",
    ),
]


def test_a_modernbert_must_name_its_activation(tmp_path):
    """Versions of transformers differ in the default."""
    folder = write_sparse(tmp_path / "model", family="modernbert")
    edit_json(folder / "config.json", classifier_activation=None)
    with pytest.raises(SourceError, match="classifier_activation must be"):
        read_sparse_folder(ModelFolder.read(folder))


@pytest.mark.parametrize(("file", "change", "message"), CHANGES)
def test_what_the_compiler_cannot_express_is_named(tmp_path, file, change, message):
    """A setting or a module that would change weights is refused with its file."""
    folder = write_sparse(tmp_path / "model")
    read_sparse_folder(ModelFolder.read(folder))
    if callable(change):
        write_json(folder / file, change(read_json(folder / file)))
    else:
        change_file(folder / file, change)
    with pytest.raises(CompilerError, match=message):
        read_sparse_folder(ModelFolder.read(folder))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.full(77, -1, np.float32), "weight must have no negative value"),
        (np.zeros((77, 2), np.float32), r"weight has the shape \[77, 2\]"),
        (np.full(77, np.nan, np.float32), "NaN or infinite"),
    ],
)
def test_a_table_must_have_a_weight_for_each_token(tmp_path, weight, message):
    """A table of another kind is refused."""
    folder = write_sparse_router(tmp_path / "model")
    save_file({"weight": weight}, folder / "query_0_SparseStatic" / "model.safetensors")
    with pytest.raises(CompilerError, match=message):
        read_sparse_folder(routes_of(ModelFolder.read(folder))["query"]).check()


def test_a_second_matrix_must_be_the_shared_one(tmp_path, compile_tiny):
    """The table is also the matrix to the logits; the file may hold an equal copy."""
    folder = write_sparse(tmp_path / "model")
    path = folder / "model.safetensors"
    tensors = load_file(path)
    table = tensors["bert.embeddings.word_embeddings.weight"]
    save_file(tensors | {"cls.predictions.decoder.weight": table}, path)
    vectors = encoded(SparseEncoder.load(compile_tiny(folder)))
    assert vectors == pytest.approx(GOLDEN["bert/document"], abs=1e-5, rel=1e-5)
    save_file(tensors | {"cls.predictions.decoder.weight": table + 1}, path)
    with pytest.raises(CompilerError, match=r"must be equal to bert\.embeddings"):
        compile_tiny(folder)


def test_tensorflows_names_in_a_head(tmp_path, compile_tiny):
    """Gamma and beta are the gain and the shift of its normalization, as in the encoder."""
    folder = write_sparse(tmp_path / "model")
    older_names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    change_tensors(folder, lambda tensors: respelled(tensors, older_names, {}))
    vectors = encoded(SparseEncoder.load(compile_tiny(folder)))
    assert vectors == pytest.approx(GOLDEN["bert/document"], abs=1e-5, rel=1e-5)


def test_a_table_needs_a_limit(tmp_path):
    """Without one, a text could take any time."""
    folder = write_sparse_router(tmp_path / "model")
    edit_json(folder / "query_0_SparseStatic" / "tokenizer_config.json", model_max_length=None)
    with pytest.raises(SourceError, match="states no limit of tokens"):
        read_sparse_folder(routes_of(ModelFolder.read(folder))["query"])
