"""The recipes of `docs/search.md` for LangChain and LlamaIndex, run against the stand-in."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from embedding_client import EmbeddingClient
from embedding_client._index import SPACE_TAG
from tests.fixtures.s3_vectors.server import CREDENTIALS, local_s3_vectors
from tools.local_endpoint.endpoint import endpoint

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "search.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("## LangChain and LlamaIndex")[2]
# The first is of the retriever, which the tests of the pages run.
_, LANGCHAIN, LLAMAINDEX = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
FACTS = ["Water boils at 100 degrees.", "A violin has four strings.", "A flute is of silver."]
YEARS = [2024, 2023, 2019]


@pytest.fixture(scope="module")
def run(minilm_artifact):
    """Return a function that runs a recipe over an index of three facts."""
    url, _ = endpoint(minilm_artifact.folder)
    with url, local_s3_vectors() as s3_vectors:
        with EmbeddingClient(url.url) as client:
            vectors = client.embed(FACTS)
            space = client.vector_space
        index = s3_vectors.create(
            "facts", vectors.shape[1], non_filterable=("text",), tags={SPACE_TAG: space}
        )
        index.put(
            [
                {
                    "key": f"fact-{number}",
                    "data": {"float32": vectors[number].tolist()},
                    "metadata": {"text": FACTS[number], "year": YEARS[number]},
                }
                for number in range(len(FACTS))
            ]
        )
        environment = {**os.environ, **CREDENTIALS, "AWS_ENDPOINT_URL_S3VECTORS": s3_vectors.url}

        def run_recipe(recipe):
            names = {"http://127.0.0.1:9000": url.url, "BUCKET": index.bucket, "INDEX": index.name}
            for name, value in {**names, "VECTOR_SPACE": space}.items():
                recipe = recipe.replace(name, value)
            return subprocess.run(
                [sys.executable, "-c", recipe],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            )

        yield run_recipe


@pytest.mark.parametrize(("recipe", "key"), [(LANGCHAIN, "fact-1 "), (LLAMAINDEX, "")])
def test_a_store_searches_a_loaded_index(run, recipe, key):
    """Its filter works; its distance is 1 minus our score, or its score is ours."""
    printed = run(recipe).stdout.splitlines()
    assert len(printed) == 2
    found = rf"0\.\d+ {key}A violin has four strings\. \{{'year': 2023\}}"
    assert re.fullmatch(found, printed[0])
