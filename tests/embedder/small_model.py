"""A small model without ONNX, for the tests that do not need a real model."""

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from embedder.core.artifact import GraphEntry, Manifest, ModelEntry, TokenizerEntry
from embedder.core.engine import Engine
from embedder.core.search import DenseIndex
from embedder.http.apis.operation import ServedModel
from embedder.http.router import Router
from embedder.http.telemetry import Telemetry

CLS, SEP, FIRST_WORD = 1, 2, 3
VOCABULARY_SIZE = 1000


@functools.cache
def _word_id(word: str) -> int:
    number = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
    return FIRST_WORD + number % (VOCABULARY_SIZE - FIRST_WORD)


class WordTokenizer:
    """A tokenizer that splits at white space and makes one token per word, from the word's hash."""

    prefix: tuple[int, ...] = (CLS,)
    suffix: tuple[int, ...] = (SEP,)
    vocabulary_size = VOCABULARY_SIZE
    unknown: int | None = None

    def encode(self, text: str) -> list[int]:
        """Return one id per word."""
        return [_word_id(word) for word in text.split()]

    def token(self, token_id: int) -> str:
        """Return the text of a token."""
        return {0: "[PAD]", CLS: "[CLS]", SEP: "[SEP]"}.get(token_id, f"word{token_id}")


@dataclass
class HashSession:
    """A session that computes vectors from the unmasked ids and records the shapes of its runs."""

    dimensions: int = 32
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    #: Raised instead of returning vectors, if set.
    failure: BaseException | None = None
    #: The value of every component instead of the computed vectors, if set.
    value: float | None = None

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Return one vector per row, as a real session does."""
        self.shapes.append(input_ids.shape)
        if self.failure is not None:
            raise self.failure
        rows = [
            self._row(ids[mask == 1]) for ids, mask in zip(input_ids, attention_mask, strict=True)
        ]
        return np.stack(rows).astype(np.float32)

    def _row(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        if self.value is not None:
            return np.full(self.dimensions, self.value)
        seed = int.from_bytes(hashlib.sha256(ids.tobytes()).digest()[:8], "big")
        row = np.random.default_rng(seed).standard_normal(self.dimensions)
        return np.asarray(row / np.linalg.norm(row))


def manifest_of(
    *,
    dimensions: tuple[int, ...] = (32, 16, 8),
    max_tokens: int = 16,
    prompts: Mapping[str, str] | None = None,
    default_prompt: str | None = None,
) -> Manifest:
    return Manifest(
        format_version=1,
        model=ModelEntry(
            name="example/small-model", revision="abc123", architecture="bert", license="apache-2.0"
        ),
        vector_space="small-model@abc123/fp32/0123456789ab",
        task="embed",
        scoring=None,
        precision="fp32",
        dimensions=dimensions,
        max_tokens=max_tokens,
        max_characters=None,
        prompts=prompts or {},
        default_prompt=default_prompt,
        tokenizer=TokenizerEntry(kind="wordpiece", file="tokenizer.bin", reason=None),
        graph=GraphEntry(
            runtime="onnxruntime",
            file="model.onnx",
            inputs=("input_ids", "attention_mask"),
            output="sentence_embedding",
            optimization="none",
        ),
        fidelity={},
        golden=(),
        files={},
        checksum="",
    )


def router_of(
    engine: Engine,
    entries: Sequence[str] | None = ("a", "b"),
    *,
    telemetry: Telemetry | None = None,
    mcp: bool = False,
) -> Router:
    """Return a router with a search index of these entries; None for no index."""
    index = None
    if entries is not None:
        embeddings = engine.embed(entries)
        index = DenseIndex(entries, embeddings.vectors, embeddings.vector_space)
    return Router(ServedModel(engine, index), telemetry=telemetry, mcp=mcp)


PROMPTS = {
    "query": "task: search result | query: ",
    "document": "title: none | text: ",
    "Clustering": "task: clustering | query: ",
}
