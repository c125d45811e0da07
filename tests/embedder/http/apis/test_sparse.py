"""The routes of a sparse encoder, and 404 for those of the other kinds."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from openapi_spec_validator import validate

from embedder.application import build_router
from embedder.core.artifact import Artifact, load_artifact
from embedder.core.errors import IndexFolderError, SettingsError
from embedder.core.settings import EmbedderSettings
from embedder.core.sparse import SparseEncoder
from embedder.http.router import Router
from model_compiler.compile import CompileOptions
from model_compiler.errors import SourceError
from model_compiler.graph.builder import Precision
from model_compiler.index_builder import build_index
from model_compiler.routes import compile_routes, routes_of
from model_compiler.source.find import find_source
from tests.embedder.calls import get, post, read
from tests.model_compiler.goldens.sparse_models import write_sparse_router

TEXTS = ["hello world", "the time and the date", "x y z", "parse a date", "hello hello"]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Artifact, Artifact]:
    """Return the artifacts of queries and of documents of a small Router."""
    root = tmp_path_factory.mktemp("sparse")
    (root / "m").mkdir()
    folder = write_sparse_router(root / "m")
    options = CompileOptions(precision=Precision.FP32, thresholds=None, progress=False)
    source = find_source(str(folder))
    compile_routes(source, routes_of(source.folder), root / "a", options)
    return load_artifact(root / "a/query"), load_artifact(root / "a/document")


@pytest.fixture(scope="module")
def index(artifacts: tuple[Artifact, Artifact], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index") / "index"
    build_index(TEXTS, Path(artifacts[1].folder), folder)
    return folder


@pytest.fixture(scope="module")
def router(artifacts: tuple[Artifact, Artifact], index: Path) -> Router:
    """Return the router of queries, with the index."""
    return build_router(EmbedderSettings(artifact=str(artifacts[0].folder), index=str(index)))


def test_a_vector_has_indices_and_values(router):
    """Of one text or several; top_k and threshold keep the largest weights."""
    response = post(router, "/", {"text": "hello world, parse the date"})
    answer = read(response)
    vector = answer["embedding"]
    assert vector["indices"] == sorted(vector["indices"])
    assert len(vector["indices"]) == len(vector["values"]) == answer["tokens"]
    assert response.headers["x-vector-space"] == answer["vector_space"]
    assert answer["vector_space"] == router.model.loaded.manifest.vector_space
    best = max(vector["values"])
    of_two = read(post(router, "/", {"texts": ["hello world, parse the date", "x"], "top_k": 1}))
    assert of_two["embeddings"][0]["values"] == [best]
    cut = read(post(router, "/", {"text": "hello world, parse the date", "threshold": best}))
    assert cut["embedding"]["values"] == [best]


def test_tei_gives_the_same_weights(router):
    """Each is an index with its value, in a list even for one text."""
    vector = read(post(router, "/", {"text": "hello world"}))["embedding"]
    pairs = zip(vector["indices"], vector["values"], strict=True)
    expected = [{"index": index, "value": value} for index, value in pairs]
    response = post(router, "/embed_sparse", {"inputs": "hello world"})
    assert read(response) == [expected]
    assert response.headers["x-compute-tokens"] == "2"
    assert read(post(router, "/embed_sparse", {"inputs": ["x", "hello world"]}))[1] == expected


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/", {"text": "x", "top_k": 0}, 400, '"top_k" must be a whole number from 1 to 77'),
        ("/", {"text": "x", "threshold": True}, 400, '"threshold" must be a number from 0 to'),
        ("/", {"text": "x", "size": 8}, 400, "size"),
        ("/", {"text": "x", "texts": ["x"]}, 400, "found both"),
        ("/", {"text": "x " * 40}, 413, "the model allows 30"),
        ("/embed_sparse", {"inputs": ["x", "x " * 40]}, 422, r"inputs\[1\]"),
        ("/similar", {"text": "x", "mode": "dense"}, 400, '"mode" must be "sparse"'),
        ("/embed", {"inputs": "x"}, 404, "this path of a sparse encoder"),
        ("/v1/embeddings", {"input": "x"}, 404, "this path of a sparse encoder"),
        ("/rerank", {}, 404, "this path of a sparse encoder"),
    ],
)
def test_errors_name_what_is_wrong(router, path, body, status, message):
    """A field or a path that a sparse encoder does not have is refused by name."""
    response = post(router, path, body)
    assert response.status == status
    assert re.search(message, response.body.decode().replace('\\"', '"'))


def test_the_index_is_searched_by_the_product(router, artifacts):
    """A query of the table finds the model's documents with their largest products first."""
    answer = read(post(router, "/similar", {"text": "parse hello", "mode": "sparse", "top": 3}))
    query = SparseEncoder.load(artifacts[0]).embed(["parse hello"]).vectors[0]
    weights = dict(zip(query.indices.tolist(), query.values.tolist(), strict=True))
    products = [
        sum(
            weights.get(index, 0) * value
            for index, value in zip(vector.indices.tolist(), vector.values.tolist(), strict=True)
        )
        for vector in SparseEncoder.load(artifacts[1]).embed(TEXTS).vectors
    ]
    order = np.argsort(-np.array(products))[:3]
    assert [entry["index"] for entry in answer["results"]] == order.tolist()
    scores = [entry["score"] for entry in answer["results"]]
    assert scores == pytest.approx([products[number] for number in order], rel=0.01)
    assert [entry["text"] for entry in answer["results"]] == [TEXTS[number] for number in order]


def test_health_info_and_the_document_describe_the_encoder(router):
    """With its space, the size of the vocabulary, and these routes alone."""
    info = read(get(router, "/info"))
    assert info["vocabulary_size"] == 77
    assert info["index_entries"] == len(TEXTS)
    assert read(get(router, "/health"))["vector_space"] == info["vector_space"]
    assert read(post(router, "/tokenize", {"inputs": "hello"}))[0][0]["text"] == "hello"
    document = read(get(router, "/openapi.json"))
    validate(document)
    described = {"/health", "/info", "/openapi.json", "/tokenize"}
    assert set(document["paths"]) == {"/", "/similar", "/search", "/embed_sparse"} | described


def test_an_index_of_another_kind_is_refused(artifacts, index, tmp_path):
    """S3 Vectors has dense vectors, and postings must be those of the model's vocabulary."""
    artifact = str(artifacts[0].folder)
    with pytest.raises(SettingsError, match="is a sparse encoder, and S3 Vectors has dense"):
        build_router(EmbedderSettings(artifact=artifact, vector_index="arn:aws:s3vectors:x"))
    broken = tmp_path / "index"
    broken.mkdir()
    for path in index.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    np.save(broken / "postings.scales.npy", np.ones(5, np.float32))
    with pytest.raises(IndexFolderError, match="has 77 tokens"):
        build_router(EmbedderSettings(artifact=artifact, index=str(broken)))
    np.save(broken / "postings.scales.npy", np.ones(77))
    with pytest.raises(IndexFolderError, match="must be float32 of 1 dimensions; found float64"):
        build_router(EmbedderSettings(artifact=artifact, index=str(broken)))


def test_an_index_is_made_with_the_documents_route(artifacts, tmp_path):
    """The table of queries would give the texts other weights of the same space."""
    with pytest.raises(SourceError, match="encodes queries; the texts of an index must be"):
        build_index(TEXTS, Path(artifacts[0].folder), tmp_path / "index")
    with pytest.raises(SourceError, match="no dimensions to choose; found 8"):
        build_index(TEXTS, Path(artifacts[1].folder), tmp_path / "index", dimensions=8)


def test_a_table_needs_no_onnx_runtime(artifacts):
    """A query side without a model starts and answers with its tokenizer and table alone."""
    code = (
        "import sys; from embedder.core.settings import EmbedderSettings; "
        "from embedder.application import build_router; "
        f"router = build_router(EmbedderSettings(artifact={str(artifacts[0].folder)!r})); "
        "router.model.loaded.embed(['hello']); "
        "print({'onnxruntime', 'tokenizers', 'embedder.core.reranker'} & set(sys.modules))"
    )
    modules = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert modules.stdout == "set()\n"
