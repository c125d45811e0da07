"""The embedding classes for LangChain and LlamaIndex, used by those packages."""

import asyncio
from typing import Any

import httpx2
import numpy as np
import pytest
from langchain_core.vectorstores import InMemoryVectorStore
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode

from embedding_client import SigV4Auth, VectorSpaceError
from embedding_client.langchain import FunctionUrlEmbeddings
from embedding_client.llamaindex import FunctionUrlEmbedding

FACTS = [
    "Water boils at 100 degrees Celsius at sea level.",
    "The parliament voted on the new budget.",
    "A violin has four strings.",
]


@pytest.fixture
def reference(client):
    return client.embed(FACTS)


def test_langchain_returns_the_endpoints_vectors(running, reference):
    """For documents and queries, blocking and asynchronously; a vector store finds by meaning."""
    embeddings = FunctionUrlEmbeddings(running.url, auth=SigV4Auth())
    assert np.allclose(embeddings.embed_documents(FACTS), reference, atol=1e-5)
    assert np.allclose(embeddings.embed_query(FACTS[0]), reference[0], atol=1e-5)
    for _ in range(2):  # each run uses a new event loop
        documents = asyncio.run(embeddings.aembed_documents(FACTS))
        assert np.allclose(documents, reference, atol=1e-5)
    assert np.allclose(asyncio.run(embeddings.aembed_query(FACTS[0])), reference[0], atol=1e-5)
    store = InMemoryVectorStore(embeddings)
    store.add_texts(FACTS)
    (found,) = store.similarity_search("Which instrument is this?", k=1)
    assert found.page_content == FACTS[2]


def test_llama_index_returns_the_endpoints_vectors(running, reference):
    """For nodes and queries, blocking and asynchronously; an index finds by meaning."""
    embedding = FunctionUrlEmbedding(url=running.url, auth=SigV4Auth(), embed_batch_size=2)
    assert np.allclose(embedding.get_text_embedding_batch(FACTS), reference, atol=1e-5)
    assert np.allclose(embedding.get_query_embedding(FACTS[0]), reference[0], atol=1e-5)
    assert np.allclose(embedding.get_text_embedding(FACTS[0]), reference[0], atol=1e-5)
    for _ in range(2):
        batch = asyncio.run(embedding.aget_text_embedding_batch(FACTS))
        assert np.allclose(batch, reference, atol=1e-5)
    query = asyncio.run(embedding.aget_query_embedding(FACTS[0]))
    assert np.allclose(query, reference[0], atol=1e-5)
    index = VectorStoreIndex([TextNode(text=fact) for fact in FACTS], embed_model=embedding)
    (found,) = index.as_retriever(similarity_top_k=1).retrieve("How hot is the kettle?")
    assert found.node.get_content() == FACTS[0]


@pytest.mark.parametrize("kind", [FunctionUrlEmbeddings, FunctionUrlEmbedding])
def test_another_vector_space_is_refused(running, kind):
    """An index of another model cannot be searched."""
    embeddings = kind(url=running.url, vector_space="another@1/int8/abc")
    blocking = getattr(embeddings, "embed_query", None) or embeddings.get_query_embedding
    asynchronous = getattr(embeddings, "aembed_query", None) or embeddings.aget_query_embedding
    with pytest.raises(VectorSpaceError, match="cannot be compared"):
        blocking("anything")
    with pytest.raises(VectorSpaceError, match="cannot be compared"):
        asyncio.run(asynchronous("anything"))


class Recorder:
    """Records the options of each call."""

    def __init__(self):
        self.recorded = []

    def embed(self, texts, **options):
        """Return zeros."""
        self.recorded.append(options)
        return np.zeros((len(texts), 2), np.float32)


@pytest.mark.parametrize(
    ("given", "documents", "query"),
    [
        ({}, {"input_type": "document"}, {"input_type": "query"}),
        ({"prompt": "STS"}, {"prompt": "STS"}, {"prompt": "STS"}),
    ],
)
def test_documents_and_queries_use_their_prompts(given, documents, query):
    """Documents and queries use different prompts, unless `prompt` sets one for both."""
    url = "https://abc.lambda-url.eu-west-1.on.aws"
    chain = FunctionUrlEmbeddings(url, **given)
    recorders: list[Any] = [Recorder(), Recorder()]
    chain._embedder._client = recorders[0]
    chain.embed_documents(["a"])
    chain.embed_query("a")
    llama = FunctionUrlEmbedding(url=url, options=given)
    llama._embedder._client = recorders[1]
    llama.get_text_embedding("a")
    llama.get_query_embedding("a")
    for recorder in recorders:
        assert recorder.recorded == [documents, query]


def test_llama_index_stores_no_credentials(running):
    """The settings that LlamaIndex stores do not contain the signer."""
    embedding = FunctionUrlEmbedding(url=running.url, auth=httpx2.BasicAuth("user", "secret"))
    assert "secret" not in str(embedding.to_dict())
