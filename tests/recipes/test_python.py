"""Each Python recipe on docs/recipes.md receives the vectors that the kit's client receives."""

import pytest

from tests.docs.pages import RECIPES, SERVED, sections

from .conftest import KEYS

pytestmark = pytest.mark.slow

PROGRAMS = sections(RECIPES, "python", level=3)
#: An expression for the vectors of a recipe's texts.
VECTORS = {
    "OpenAI": "[item.embedding for item in response.data]",
    "LangChain": "[entry['vector'] for entry in store.store.values()]",
    "LlamaIndex": "[index.vector_store.get(key) for key in index.index_struct.nodes_dict]",
    "Haystack": "[document.embedding for document in documents]",
    "Chroma": "collection.get(['water', 'violin'], include=['embeddings'])['embeddings']",
    "LanceDB": "table.to_arrow()['vector'].to_pylist()",
    "litellm": "[item['embedding'] for item in response.data]",
    "semantic-kernel": "vectors",
    "pydantic-ai": "result.embeddings",
    "huggingface_hub": "vectors",
    "MCP": "vectors",
    "requests-aws4auth": "response.json()['embeddings']",
}
#: The recipes that search, and find this.
SEARCHES = ("LangChain", "LlamaIndex", "Haystack", "Chroma", "LanceDB")
FOUND = "A violin has four strings."
PRINT = "\nimport json; print(json.dumps([[float(x) for x in vector] for vector in {}]))"
#: litellm downloads no prices, and Chroma and Haystack send no statistics.
OFFLINE = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "ANONYMIZED_TELEMETRY": "False",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
}


def test_every_recipe_is_tested():
    """A new section needs the expression for its vectors."""
    assert PROGRAMS.keys() == VECTORS.keys()


@pytest.mark.parametrize("title", VECTORS)
def test_vectors_are_those_of_the_client(title, *, served, run, printed_vectors, tmp_path, request):
    """The library's vectors are equal to the client's, and its search finds the nearest text."""
    python = request.getfixturevalue("python_with_litellm" if title == "litellm" else "python")
    program = PROGRAMS[title].replace(SERVED, served.url) + PRINT.format(VECTORS[title])
    printed = run(program, tmp_path, python=python, **KEYS, **OFFLINE)
    # For the cosine, Chroma divides a vector by its length before it stores it.
    printed_vectors(printed, units_in_last_place=title == "Chroma")
    assert (FOUND in printed) == (title in SEARCHES)
