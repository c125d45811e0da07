"""Texts to vectors: tokenize → plan → run → truncate, with every input embedded once."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from embedder.core.artifact import KINDS, SEGMENTS, Manifest
from embedder.core.batching import TOKEN_BUDGET, Runs, SegmentRuns
from embedder.core.embedding_request import (
    CHARACTERS_PER_TOKEN,
    Embeddings,
    EmbedRequest,
    Inputs,
    Limits,
    Timings,
)
from embedder.core.errors import ArtifactError
from embedder.core.fast_tokenizers import Tokenizer
from embedder.core.runtimes import InferenceSession, Loadable
from embedder.core.tokenization import RequestTokenizer

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt


class Engine(Loadable):
    """The model: its tokenizer, its session, and a cache of vectors.

    Threads may share it, if they may share the session: ONNX Runtime's may be shared.

    Args:
        manifest: the artifact's manifest; of another task, it is an `ArtifactError`.
        tokenizer: texts to token ids.
        session: token ids to full-size vectors; one with `run_all` gets all runs of a request at
            once.
        truncate: the default handling of an input over the limit.
        max_characters: the longest text; None takes the manifest's limit, or computes it from the
            limit of tokens.
        cache_entries: how many vectors to keep.
        run_tokens: the most tokens of one run, padding included. It changes no vector.
    """

    #: The task of the artifacts that it takes.
    task: ClassVar[str] = "embed"

    def __init__(
        self,
        manifest: Manifest,
        tokenizer: Tokenizer,
        session: InferenceSession,
        *,
        truncate: str = "refuse",
        max_characters: int | None = None,
        cache_entries: int = 0,
        run_tokens: int = TOKEN_BUDGET,
    ) -> None:
        if manifest.task != self.task:
            raise ArtifactError(
                f"{manifest.model.name} is {manifest.kind}; {KINDS[self.task]}'s artifact is "
                "needed."
            )
        self.manifest = manifest
        self.tokenizer = tokenizer
        self._runs = self._kind_of_runs(
            session,
            width=manifest.full_dimensions,
            limit=manifest.max_tokens,
            cache_entries=cache_entries,
            run_tokens=run_tokens,
        )
        #: The most tokens of one run, padding included; one input is always allowed.
        self.run_tokens = run_tokens
        self.cache = self._runs.cache
        self.limits = Limits(
            dimensions=manifest.dimensions,
            max_tokens=manifest.max_tokens,
            max_characters=max_characters
            or manifest.max_characters
            or manifest.max_tokens * CHARACTERS_PER_TOKEN,
            vocabulary_size=self.tokenizer.vocabulary_size,
            prompts=manifest.prompts,
            default_prompt=manifest.default_prompt,
            truncate=truncate,
        )
        self.request_tokenizer = RequestTokenizer(
            tokenizer, self.limits, pools_prompt=SEGMENTS not in manifest.graph.inputs
        )

    @property
    def _kind_of_runs(self) -> type[Runs]:
        # Of an embedding model with segments, a prompt is not pooled.
        return SegmentRuns if SEGMENTS in self.manifest.graph.inputs else Runs

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
            OutOfTimeError: if there is no time left, or measured runs of the same size say that
                the next run would not be finished by the deadline. The first run of a request that
                has most of its time left is always tried.
            InferenceError: if the model did not give finite vectors.
        """
        started = time.perf_counter()
        deadline = request.deadline
        allowed = 0.0 if deadline is None else deadline - time.monotonic()
        sequences, characters = self.request_tokenizer.encode(request)
        tokenized = time.perf_counter()
        # Each input's ids as bytes, int32; equal ones share a place among the distinct.
        packed = [array("i", ids).tobytes() for ids in sequences]
        if not self.request_tokenizer.pools_prompt:
            left_out = self.request_tokenizer.left_out(request)
            packed = [
                ids + b"\2" * left_out + b"\1" * (len(sequence) - left_out)
                for ids, sequence in zip(packed, sequences, strict=True)
            ]
        places: dict[bytes, int] = {}
        order = [places.setdefault(ids, len(places)) for ids in packed]
        whole, done = self._runs.compute(list(places), deadline, allowed)
        if len(places) < len(order):
            whole = whole[order]
        dimensions = request.dimensions or self.limits.full_dimensions
        if dimensions < self.limits.full_dimensions:
            whole = truncate_vectors(whole, dimensions, normalize=request.normalize)
        return Embeddings(
            vectors=whole,
            tokens=[len(ids) for ids in sequences],
            vector_space=self.vector_space(dimensions, normalize=request.normalize),
            timings=Timings(
                tokenized - started,
                time.perf_counter() - tokenized - done.queue_seconds,
                done.queue_seconds,
            ),
            characters=characters,
            cache_hits=done.cache_hits,
            repeats=len(order) - len(places),
            runs=done.runs,
            padding_tokens=done.padding_tokens,
            computed_tokens=done.computed_tokens,
        )

    def vector_space(self, dimensions: int | None = None, *, normalize: bool = True) -> str:
        """Name the space of vectors with these dimensions; None takes all."""
        dimensions = dimensions or self.limits.full_dimensions
        space = self.manifest.vector_space_of(dimensions=dimensions)
        # Vectors that were cut and not brought back to length 1 are other vectors.
        whole = dimensions == self.limits.full_dimensions
        return space if normalize or whole else f"{space}/unnormalized"

    def warm(self, texts: Sequence[str] = ("warm",)) -> None:
        """Run the model on some texts, so that the first request does not pay for one-time work."""
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
