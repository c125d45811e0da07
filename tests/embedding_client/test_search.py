"""`POST /search` by the client, `embed search` and the retrievers, with small models."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from langchain_core.documents import Document

from embedding_client import EmbeddingClient, RequestError, SigV4Auth, VectorSpaceError
from embedding_client.langchain import FunctionUrlRetriever
from embedding_client.llamaindex import FunctionUrlRetriever as LlamaIndexRetriever
from tests.docs.pages import BASH, PYTHON, SEARCH, blocks
from tests.embedding_client.answers import asynchronously
from tests.fixtures.models_together import write_together
from tools.local_endpoint.endpoint import endpoint

QUERY = "the date"
TEXTS = ["hello world", "the time and the date", "parse a date", "a time", "hello"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the models and their index, for requests signed with local / local."""
    models, index = write_together(tmp_path_factory.mktemp("models"), TEXTS)
    running, _ = endpoint(models, index=index)
    with running:
        yield running.url


@pytest.fixture(scope="module")
def answer(url: str) -> dict[str, Any]:
    """Return the answer of `POST /search` to two results."""
    with httpx2.Client(auth=SigV4Auth()) as http:
        response = http.post(url + "/search", json={"query": QUERY, "top_k": 2})
    value: dict[str, Any] = response.raise_for_status().json()
    return value


def test_the_client_searches(url, answer):
    """With one of the options `POST /search` answers, without them `POST /similar`."""
    wanted = [(each["id"], each["score"], each["scores"]) for each in answer["results"]]
    assert wanted[0][2].keys() == {"dense", "sparse", "fused", "rerank"}
    with EmbeddingClient(url) as client:
        found = client.search(QUERY, top=2, mode="hybrid")
        assert [(match.id, match.score, match.scores) for match in found] == wanted
        fused = client.search(QUERY, top=2, rerank=False)
        assert [match.score for match in fused] == [match.scores["fused"] for match in fused]
        assert [match.scores for match in client.search(QUERY, top=2)] == [{}, {}]
        with pytest.raises(RequestError, match='at least "top_k", 10; found 3'):
            client.search(QUERY, candidates=3)
    matches = asynchronously(lambda c: c.search(QUERY, top=2, candidates=50), url)
    assert [match.id for match in matches] == [name for name, _, _ in wanted]


def test_the_command_searches(url, answer, command):
    """`embed search` has the same options, which need the endpoint's own index."""
    out = command("search", QUERY, "--url", url, "--top", 2, "--json", "--mode", "hybrid")[1]
    printed = map(json.loads, out.splitlines())
    assert [each["scores"] for each in printed] == [each["scores"] for each in answer["results"]]
    arn = "arn:aws:s3vectors:eu-central-1:111122223333:bucket/b/index/i"
    code, _, err = command("search", arn, QUERY, "--url", url, "--no-rerank")
    assert (code, "found --rerank with INDEX; allowed: without INDEX" in err) == (2, True)


def test_retrievers_of_other_libraries(url, answer):
    """LangChain's documents and LlamaIndex's nodes are the results, in their order."""
    wanted = [(each["id"], each["text"], each["score"]) for each in answer["results"]]
    documents = FunctionUrlRetriever(url=url, k=2)

    def parts(found: list[Document]) -> list[tuple[str | None, str, float]]:
        return [(each.id, each.page_content, each.metadata["score"]) for each in found]

    assert parts(documents.invoke(QUERY)) == wanted
    assert parts(asyncio.run(documents.ainvoke(QUERY))) == wanted
    nodes = LlamaIndexRetriever(url, similarity_top_k=2)
    for found in (nodes.retrieve(QUERY), asyncio.run(nodes.aretrieve(QUERY))):
        assert [(each.node.node_id, each.text, each.score) for each in found] == wanted
    with pytest.raises(VectorSpaceError, match="cannot be compared"):
        FunctionUrlRetriever(url=url, vector_space="another@1/int8/abc").invoke(QUERY)
    with pytest.raises(VectorSpaceError, match="cannot be compared"):
        LlamaIndexRetriever(url, vector_space="another@1/int8/abc").retrieve(QUERY)


def test_the_pages_examples(url):
    """The programs and commands of the page Search print something."""
    page = SEARCH.read_text("utf-8").replace("http://127.0.0.1:9000", url)
    programs = [[*PYTHON, "\n".join(blocks(page, "python"))]]
    programs += [[*BASH, block] for block in blocks(page, "bash")]
    place = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for program in programs:
        done = subprocess.run(
            program, env={"PATH": place}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout
    assert len(programs) == 2
