"""Rerankers: the client, `embed`, and others' clients, with a small model behind a Function URL."""

import json
from typing import Any

import cohere
import httpx
import pytest
from langchain_cohere import CohereRerank
from langchain_core.documents import Document
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.postprocessor.cohere_rerank import CohereRerank as LlamaIndexCohereRerank
from llama_index.postprocessor.tei_rerank import TextEmbeddingInference

from embedder.core.artifact import Artifact
from embedding_client import (
    BatchLimits,
    ConfigurationError,
    EmbeddingClient,
    RequestError,
    SigV4Auth,
)
from tests.docs.pages import RERANK, run_examples
from tests.embedder.server.test_serve import process
from tests.embedding_client.answers import asynchronously
from tests.fixtures.small_artifact import small_artifact
from tests.model_compiler.goldens.reranker_models import write_reranker

QUERY, TEXTS = "parse the date", ["hello world", "a date and a time", "x"]
Ranking = list[tuple[int, float]]


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Return the artifact of a small reranker."""
    return small_artifact(write_reranker(tmp_path_factory.mktemp("reranker") / "model"))


@pytest.fixture(scope="module")
def ranking(url: str) -> Ranking:
    """Return the places and the scores of TEXTS, the best first, as TEI's path has them."""
    with httpx.Client(auth=SigV4Auth()) as http:
        answer = http.post(url + "/rerank", json={"query": QUERY, "texts": TEXTS})
    return [(entry["index"], entry["score"]) for entry in answer.raise_for_status().json()]


def test_cohere(url, ranking):
    """Both of Cohere's clients rank, and raise their own errors."""
    asked: dict[str, Any] = {"model": "rerank-v3.5", "query": QUERY}
    with httpx.Client(auth=SigV4Auth()) as http:
        second = cohere.ClientV2("-", base_url=url, httpx_client=http)
        found = second.rerank(**asked, documents=TEXTS, top_n=2, max_tokens_per_doc=512)
        assert [(one.index, one.relevance_score) for one in found.results] == ranking[:2]
        assert found.meta is not None
        assert found.meta.tokens is not None
        with pytest.raises(cohere.BadRequestError, match=r"documents\[1\]"):
            second.rerank(**asked, documents=["a", " "])
        first = cohere.Client("-", base_url=url, httpx_client=http)
        objects = [{"text": text} for text in TEXTS]
        answer = first.rerank(**asked, documents=objects, return_documents=True)
    assert [(one.index, one.relevance_score) for one in answer.results] == ranking
    documents = [one.document.text for one in answer.results if one.document]
    assert documents == [TEXTS[place] for place, _ in ranking]


def test_langchain_cohere(url, ranking):
    """LangChain's compressor keeps the best documents, with their scores."""
    with httpx.Client(auth=SigV4Auth()) as http:
        client = cohere.ClientV2("-", base_url=url, httpx_client=http)
        compressor = CohereRerank(client=client, model="any", top_n=2)
        kept = compressor.compress_documents([Document(text) for text in TEXTS], QUERY)
    assert [(one.page_content, one.metadata["relevance_score"]) for one in kept] == [
        (TEXTS[place], score) for place, score in ranking[:2]
    ]


def test_llama_index(artifact, ranking):
    """LlamaIndex's postprocessors for TEI and Cohere sign nothing, so they call the server."""
    nodes = [NodeWithScore(node=TextNode(text=text)) for text in TEXTS]
    best = [(TEXTS[place], score) for place, score in ranking[:2]]
    with process(artifact, "--no-keys") as (server, _):
        tei = TextEmbeddingInference(base_url=server, top_n=2)
        kept = tei.postprocess_nodes(nodes, query_str=QUERY)
        assert [(one.text, one.score) for one in kept] == best
        by_cohere = LlamaIndexCohereRerank(base_url=server, api_key="-", top_n=2)
        with by_cohere._client:  # which it does not close
            kept = by_cohere.postprocess_nodes(nodes, query_str=QUERY)
        assert [(one.text, one.score) for one in kept] == best


def test_the_client_ranks(url, ranking):
    """Scores are those of one request, however many the client sends; also asynchronously."""
    with EmbeddingClient(url, limits=BatchLimits(texts=1)) as client:
        found = client.rerank(QUERY, iter(TEXTS))
        assert [(one.index, one.score) for one in found] == ranking
        assert [one.passage for one in found] == [TEXTS[place] for place, _ in ranking]
        assert client.rerank(QUERY, TEXTS, top_k=1) == found[:1]
        assert client.rerank(QUERY, []) == []
        assert client.vector_space == client.health()["score_space"]
    assert asynchronously(lambda c: c.rerank(QUERY, TEXTS, top_k=2), url) == found[:2]


def test_the_clients_errors(url, running):
    """A refused passage is named by its place in the call, and the other kind of model by kind."""
    long = "hello world " * 60
    with EmbeddingClient(url, limits=BatchLimits(texts=2)) as client:
        with pytest.raises(RequestError, match=r'"texts\[3\]" has') as refused:
            client.rerank(QUERY, [*TEXTS, long], truncate=False)
        assert (refused.value.position, refused.value.code) == (3, "input_too_long")
        assert len(client.rerank(QUERY, [*TEXTS, long])) == 4
        for wrong in ((" ", TEXTS, 1), (QUERY, ["a", ""], 1), (QUERY, TEXTS, 0)):
            with pytest.raises(ConfigurationError):
                client.rerank(wrong[0], wrong[1], top_k=wrong[2])
        with pytest.raises(RequestError, match="at this path of a reranker"):
            client.embed(["a"])
    with (
        EmbeddingClient(running.url) as client,
        pytest.raises(RequestError, match="at this path of an embedding model"),
    ):
        client.rerank(QUERY, TEXTS)


def test_the_pages_examples(url, tmp_path):
    """Each example on docs/rerank.md runs, and prints a passage or its place."""
    printed = run_examples(RERANK, "Rerank", url, tmp_path)
    assert len(printed) == 2
    assert all("violin" in text or "Water" in text for text in printed)


def test_the_command(url, ranking, tmp_path, command):
    """`embed rerank` prints the best texts first; `embed` with a reranker says what to use."""
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS))
    out = command("rerank", QUERY, file, "--url", url, "--top", 2, "--json")[1]
    lines = map(json.loads, out.splitlines())
    assert [(line["index"], line["score"]) for line in lines] == ranking[:2]
    file.write_text("a\n\nb")
    code, _, err = command("rerank", QUERY, file, "--url", url)
    assert (code, "line 2" in err) == (1, True)
    code, _, err = command("a text", "--url", url)
    assert (code, "ranked by `embed rerank`" in err) == (1, True)


def test_the_doctor_takes_a_reranker_for_well(url, command, tmp_path, monkeypatch):
    """A signed request gets a score, and the score space is compared as a vector space is."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code, report, _ = command("doctor", "--url", url, "--json")
    assert (code, "a score in" in report) == (0, True)
    assert "remembered for the next time" in report
