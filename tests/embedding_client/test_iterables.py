"""Texts may be any iterable, also one that can be read only once."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest

from embedding_client import (
    AsyncEmbeddingClient,
    ConfigurationError,
    EmbeddedTexts,
    EmbeddingClient,
)
from embedding_client.langchain import FunctionUrlEmbeddings

TEXTS = ["a violin", "a kettle", "a violin", "a budget"]
ITERABLES: dict[str, Callable[[list[str]], Any]] = {
    "list": list,
    "tuple": tuple,
    "generator": lambda texts: (text for text in texts),
    "map": lambda texts: map(str, texts),
    "filter": lambda texts: filter(None, texts),
    "reversed": lambda texts: reversed([*reversed(texts)]),
    "iterator": iter,
    "dictionary view": lambda texts: dict(enumerate(texts)).values(),
    "numpy array": np.array,
}
# LlamaIndex's own methods need a length, and raise TypeError without one.
CLASSES = (EmbeddingClient, AsyncEmbeddingClient, FunctionUrlEmbeddings)
METHODS = [
    (kind, name)
    for kind in CLASSES
    for name, method in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_") and "texts" in inspect.signature(method).parameters
]
#: Without those of other models, which test_sparse.py and test_classify.py ask.
DENSE = [(kind, name) for kind, name in METHODS if name not in {"embed_sparse", "classify"}]


def vectors(kind, name, url, texts):
    """Call a method, and return its vectors as one array."""

    def joined(result):
        if isinstance(result, Iterator):
            result = list(result)
            rows = [part.vectors if isinstance(part, EmbeddedTexts) else part for part in result]
            return np.concatenate(rows)
        return np.asarray(result)

    async def called():
        if kind is not AsyncEmbeddingClient:
            return await getattr(kind(url), name)(texts)
        async with kind(url) as client:
            result = getattr(client, name)(texts)
            if isinstance(result, AsyncIterator):
                return iter([part async for part in result])
            return await result

    method = getattr(kind, name)
    if inspect.iscoroutinefunction(method) or kind is AsyncEmbeddingClient:
        return joined(asyncio.run(called()))
    return joined(getattr(kind(url), name)(texts))


def test_the_methods_are_those_of_all_classes():
    """A method that takes texts is in the list, or its parameter has another name."""
    assert {name for _, name in METHODS} == {
        "embed", "iter_embed", "iter_parts", "embed_documents", "aembed_documents",
        "embed_sparse", "classify",
    }  # fmt: skip
    assert len(METHODS) == 12


@pytest.mark.parametrize("iterable", ITERABLES)
@pytest.mark.parametrize(("kind", "name"), DENSE)
def test_each_iterable_gives_the_vectors_of_a_list(running, client, kind, name, iterable):
    """An iterator is read once, and no text of it is lost."""
    expected = client.embed(TEXTS)
    found = vectors(kind, name, running.url, ITERABLES[iterable](TEXTS))
    assert np.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(("kind", "name"), METHODS)
def test_one_text_is_no_iterable_of_texts(running, kind, name):
    """Its letters would get a vector each."""
    with pytest.raises(ConfigurationError, match="found one string"):
        vectors(kind, name, running.url, "violin")
