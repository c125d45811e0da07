"""`client.embed_sparse` against an endpoint that serves a sparse encoder."""

import numpy as np
import pytest

from embedder.core.artifact import Artifact
from embedder.core.sparse import SparseEncoder
from embedding_client import (
    BatchLimits,
    ConfigurationError,
    EmbeddingClient,
    RequestError,
    SparseVector,
)
from tests.docs.pages import RERANK, run_examples
from tests.embedding_client.answers import asynchronously
from tests.fixtures.small_artifact import small_artifact
from tests.model_compiler.goldens.sparse_models import write_sparse

TEXTS = ["hello world", "parse the date", "x"]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Return the artifact of a small sparse encoder."""
    return small_artifact(write_sparse(tmp_path_factory.mktemp("sparse") / "model"))


def same(found: list[SparseVector], wanted: list[SparseVector]) -> bool:
    return len(found) == len(wanted) and all(
        np.array_equal(a.indices, b.indices) and np.array_equal(a.values, b.values)
        for a, b in zip(found, wanted, strict=True)
    )


def test_vectors_are_the_embedders(url, artifact):
    """To the last bit, however many texts a request has; also asynchronously."""
    wanted = [SparseVector(*vector) for vector in SparseEncoder.load(artifact).embed(TEXTS).vectors]
    with EmbeddingClient(url, limits=BatchLimits(texts=2)) as client:
        found = client.embed_sparse(iter(TEXTS))
        assert same(found, wanted)
        assert [str(part.dtype) for part in found[0]] == ["uint32", "float32"]
        assert client.vector_space == client.health()["vector_space"]
        (best,) = client.embed_sparse(TEXTS[:1], top_k=1)
        assert best.values.tolist() == [found[0].values.max()]
        assert client.embed_sparse([]) == []
    cut = [vector.values >= 0.5 for vector in wanted]
    wanted = [SparseVector(v.indices[c], v.values[c]) for v, c in zip(wanted, cut, strict=True)]
    found = asynchronously(lambda client: client.embed_sparse(TEXTS, threshold=0.5), url)
    assert same(found, wanted)


def test_the_pages_example(url, tmp_path):
    """The example on docs/rerank.md runs, and prints the 64 largest weights of its text."""
    with EmbeddingClient(url) as client:
        (vector,) = client.embed_sparse(["A violin has four strings."], top_k=64)
    assert run_examples(RERANK, "Sparse vectors", url, tmp_path) == [
        f"{vector.indices} {vector.values}\n"
    ]


def test_errors_name_the_text(url):
    """A refused text is named by its place in the call, and an option by its field."""
    with EmbeddingClient(url, limits=BatchLimits(texts=2)) as client:
        with pytest.raises(RequestError, match=r'"texts\[3\]" has') as refused:
            client.embed_sparse([*TEXTS, "hello world " * 60])
        assert refused.value.position == 3
        assert len(client.embed_sparse(["hello world " * 60], truncate=True)) == 1
        with pytest.raises(RequestError, match="top_k"):
            client.embed_sparse(TEXTS, top_k=0)
        with pytest.raises(ConfigurationError, match="must not be blank"):
            client.embed_sparse(["a", " "])
        with pytest.raises(RequestError, match="at this path of a sparse encoder"):
            client.rerank("a", TEXTS)
