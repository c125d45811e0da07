"""Libraries that rank with an unmodified client: the scores are those of the endpoint."""

import json
import re
from collections.abc import Iterator

import httpx2
import pytest

from embedder.core.artifact import load_artifact
from model_compiler.compile import CompileOptions, compile_model
from model_compiler.graph.builder import Precision
from model_compiler.source.find import find_source
from tests.docs.pages import BLOCK, RERANK, SERVED
from tests.embedder.server.test_serve import process
from tests.model_compiler.goldens.reranker_models import write_reranker

from .conftest import KEYS

pytestmark = pytest.mark.slow

QUERY, TEXTS = "parse the date", ["hello world", "a date and a time", "x"]
#: Only Cohere's signs a request, so they call the server. Each prints places and scores of two.
COHERE = """
import json, cohere, httpx
from embedding_client import SigV4Auth

with httpx.Client(auth=SigV4Auth()) as http:
    client = cohere.ClientV2("-", base_url="{url}", httpx_client=http)
    found = client.rerank(model="{model}", query={query!r}, documents={texts!r}, top_n=2)
print(json.dumps([[one.index, one.relevance_score] for one in found.results]))
"""
LITELLM = """
import json, litellm
found = litellm.rerank(
    model="{model}", query={query!r}, documents={texts!r}, top_n=2, api_key="-", api_base="{url}"
)
print(json.dumps([[one["index"], one["relevance_score"]] for one in found.results]))
"""
HAYSTACK = """
import json
from haystack import Document
from haystack.utils import Secret
from haystack_integrations.components.rankers.cohere import CohereRanker

ranker = CohereRanker(
    model="{model}", api_key=Secret.from_token("-"), api_base_url="{url}", top_k=2
)
texts = {texts!r}
found = ranker.run(query={query!r}, documents=[Document(content=text) for text in texts])
print(json.dumps([[texts.index(one.content), one.score] for one in found["documents"]]))
"""
INFINITY = """
import json
from infinity_client import Client
from infinity_client.api.default import rerank
from infinity_client.models import RerankInput

body = RerankInput(query={query!r}, documents={texts!r}, top_n=2, model="{model}")
found = rerank.sync(client=Client(base_url="{url}"), body=body)
print(json.dumps([[one.index, one.relevance_score] for one in found.results]))
"""
PROGRAMS = {
    "Cohere's newest client": (COHERE, "python_with_litellm", "any", ""),
    "litellm, Cohere's API": (LITELLM, "python_with_litellm", "cohere/any", ""),
    "litellm, Jina's API": (LITELLM, "python_with_litellm", "jina_ai/any", "/v1/rerank"),
    "litellm, TEI's API": (LITELLM, "python_with_litellm", "huggingface/any", ""),
    "Haystack": (HAYSTACK, "python", "any", ""),
    "infinity": (INFINITY, "python_with_infinity", "any", ""),
}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a small reranker without keys."""
    folder = tmp_path_factory.mktemp("reranker")
    options = CompileOptions(precision=Precision.FP32, thresholds=None, progress=False)
    compile_model(find_source(str(write_reranker(folder / "m"))), folder / "a", options)
    with process(load_artifact(folder / "a"), "--no-keys") as (served, _):
        yield served


def best_two(url: str, query: str, texts: list[str]) -> list[list[float]]:
    body = {"query": query, "texts": texts}
    answer = httpx2.post(f"{url}/rerank", json=body).raise_for_status().json()
    return [[one["index"], one["score"]] for one in answer[:2]]


@pytest.mark.parametrize("title", PROGRAMS)
def test_the_best_are_those_of_the_endpoint(title, url, run, tmp_path, request):
    """The library asks for the best two, and gets their places and scores."""
    program, environment, model, path = PROGRAMS[title]
    code = program.format(model=model, query=QUERY, texts=TEXTS, url=url + path)
    python = request.getfixturevalue(environment)
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HAYSTACK_TELEMETRY_ENABLED": "False"}
    printed = run(code, tmp_path, python=python, **offline)
    assert json.loads(printed) == best_two(url, QUERY, TEXTS)


def test_the_pages_example_with_langchain(url, run, tmp_path):
    """LangChain's CrossEncoderReranker finds the best passage with the class on the page."""
    examples = [match["code"] for match in BLOCK.finditer(RERANK.read_text("utf-8"))]
    (code,) = (example for example in examples if "langchain_classic" in example)
    passages = re.findall(r'Document\("(.+?)"\)', code)
    (query,) = re.findall(r'documents, "(.+?)"\)', code)
    ((best, _), _) = best_two(url, query, passages)
    printed = run(code.replace(SERVED, url), tmp_path, **KEYS)
    assert printed == f"{passages[int(best)]}\n"
