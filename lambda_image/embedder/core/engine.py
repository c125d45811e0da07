"""Texts to vectors: tokenize → plan → run → truncate, with every input embedded once."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from embedder.core.artifact import SEGMENTS
from embedder.core.embedding_request import Embeddings, EmbedRequest, Inputs, Limits
from embedder.core.errors import BatchTooLargeError
from embedder.core.loaded_model import LoadedModel
from embedder.core.model_runner import ModelRunner, SegmentRunner
from embedder.core.tokenization import RequestTokenizer

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt


class Engine(LoadedModel):
    """A model that makes vectors; its rows are full-size ones."""

    task: ClassVar[str] = "embed"

    def _configure(self, truncate: str, max_characters: int) -> None:
        manifest = self.manifest
        self.limits = Limits(
            dimensions=manifest.dimensions,
            max_tokens=manifest.max_tokens,
            max_characters=max_characters,
            vocabulary_size=self.tokenizer.vocabulary_size,
            prompts=manifest.prompts,
            default_prompt=manifest.default_prompt,
            truncate=truncate,
        )
        self.request_tokenizer = RequestTokenizer(
            self.tokenizer, self.limits, pools_prompt=not self._has_segments
        )

    @property
    def _has_segments(self) -> bool:
        """Whether the model pools by segments, and so without the prompt."""
        return SEGMENTS in self.manifest.graph.inputs

    @property
    def runner_type(self) -> type[ModelRunner]:
        """See `LoadedModel`."""
        return SegmentRunner if self._has_segments else ModelRunner

    def embed(
        self,
        texts: Sequence[str],
        *,
        prompt: str | None = None,
        dimensions: int | None = None,
        truncate: str | None = None,
    ) -> Embeddings:
        """Embed texts: `embed_request` for callers in Python; see `EmbedRequest`."""
        return self.embed_request(
            EmbedRequest(
                inputs=Inputs(texts=texts),
                prompt=prompt,
                dimensions=dimensions,
                truncate=truncate or self.limits.truncate,
            )
        )

    def embed_request(self, request: EmbedRequest) -> Embeddings:
        """Embed the inputs of a request: float32 vectors in their order, of length 1.

        Raises:
            InvalidFieldError: if the prompt or the dimensions are not the model's.
            EmptyInputError: if an input has no tokens.
            InputTooLongError: if an input is over the limits and must not be truncated.
            BatchTooLargeError: if more inputs differ than may.
            OutOfTimeError: if there is no time left, or measured runs of the same size say that
                the next run would not be finished by the deadline. The first run of a request that
                has most of its time left is always tried.
            InferenceError: if the model did not give finite vectors.
        """
        started = time.perf_counter()
        sequences, characters = self.request_tokenizer.encode(request)
        # Each input's ids as bytes, int32.
        packed = [array("i", ids).tobytes() for ids in sequences]
        if not self.request_tokenizer.pools_prompt:
            left_out = self.request_tokenizer.left_out(request)
            packed = [
                ids + b"\2" * left_out + b"\1" * (len(sequence) - left_out)
                for ids, sequence in zip(packed, sequences, strict=True)
            ]
        limit = request.most_different
        if limit is not None and len(packed) > limit and (different := len(set(packed))) > limit:
            raise BatchTooLargeError(
                f"holds {different} different inputs; an answer has room for the vectors of "
                f"{limit}."
            )
        embeddings = self._compute(
            packed,
            [len(ids) for ids in sequences],
            characters=characters,
            started=started,
            deadline=request.deadline,
        )
        vectors, dimensions = embeddings.vectors, request.dimensions or self.limits.full_dimensions
        if dimensions < self.limits.full_dimensions:
            vectors = truncate_vectors(vectors, dimensions, normalize=request.normalize)
        space = self.vector_space(dimensions, normalize=request.normalize)
        unknown = self.request_tokenizer.unknown(request, sequences)
        return embeddings._replace(vectors=vectors, vector_space=space, unknown=unknown)

    def vector_space(self, dimensions: int | None = None, *, normalize: bool = True) -> str:
        """Name the space of vectors with these dimensions; None takes all."""
        dimensions = dimensions or self.limits.full_dimensions
        space = self.manifest.vector_space_of(dimensions=dimensions)
        # Vectors that were cut and not brought back to length 1 are other vectors.
        is_full_size = dimensions == self.limits.full_dimensions
        return space if normalize or is_full_size else f"{space}/unnormalized"

    def warm(self, texts: Sequence[str] = ("warm",)) -> None:
        """See `LoadedModel`."""
        self.embed([text[: self.limits.max_characters] for text in texts], truncate="right")
        self.cache.clear()


def truncate_vectors(
    vectors: npt.NDArray[np.float32], dimensions: int, *, normalize: bool = True
) -> npt.NDArray[np.float32]:
    """Cut vectors, float32 [n, all dimensions], to their first components.

    With `normalize`, bring them back to length 1. This is how Matryoshka embeddings are made
    shorter (Kusupati et al., arXiv:2205.13147).
    """
    if dimensions == vectors.shape[1]:
        return vectors
    cut = np.ascontiguousarray(vectors[:, :dimensions])
    if normalize:
        lengths = np.linalg.norm(cut, axis=1, keepdims=True)
        # A row of zeros has no direction to keep.
        cut /= np.maximum(lengths, np.finfo(np.float32).tiny)
    return cut
