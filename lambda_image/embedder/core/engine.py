"""Texts to vectors: tokenize → plan → run → truncate, with every input embedded once."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from embedder.core.artifact import Artifact, Manifest
from embedder.core.batching import TOKEN_BUDGET, Run, RuntimeEstimator, plan
from embedder.core.cache import VectorCache
from embedder.core.embedding_request import Embeddings, EmbedRequest, Inputs, Limits, Timings
from embedder.core.encoder import CHARACTERS_PER_TOKEN, Encoder
from embedder.core.errors import AnswerableError, InferenceError, OutOfTimeError
from embedder.core.fast_tokenizers import Tokenizer, load
from embedder.core.runtimes import Batch, InferenceSession, RunBatches, load_session

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt

#: Bytes of a token id while it waits to be run.
_ID_BYTES = array("i").itemsize


class Engine:
    """The model: its tokenizer, its session, and a cache of vectors.

    Threads may share it, if they may share the session: ONNX Runtime's may be shared.

    Args:
        manifest: the artifact's manifest.
        tokenizer: texts to token ids.
        session: token ids to full-size vectors; one with `run_all` gets all runs of a request at
            once.
        truncate: the default handling of an input over the limit.
        max_characters: the longest text; None takes the manifest's limit, or computes it from the
            limit of tokens.
        cache_entries: how many vectors to keep.
        run_tokens: the most tokens of one run, padding included. It changes no vector.
    """

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
        self.manifest = manifest
        self.tokenizer = tokenizer
        self._session = session
        self._run_all: RunBatches | None = getattr(session, "run_all", None)
        #: The most tokens of one run, padding included; one input is always allowed.
        self.run_tokens = run_tokens
        self.cache = VectorCache(cache_entries)
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
        self.encoder = Encoder(tokenizer, self.limits)
        self._runtimes = RuntimeEstimator()

    @classmethod
    def load(
        cls,
        artifact: Artifact,
        *,
        threads: int = 1,
        truncate: str = "refuse",
        max_characters: int | None = None,
        cache_entries: int = 0,
        wrap: Callable[[InferenceSession], InferenceSession] | None = None,
        run_tokens: int = TOKEN_BUDGET,
    ) -> Engine:
        """Load an artifact's tokenizer and session.

        Args:
            artifact: the artifact to load.
            threads: how many threads one run of the session may use.
            truncate: see `Engine`, also for what is not listed here.
            max_characters: the longest text.
            cache_entries: how many vectors to keep.
            wrap: gets the session and returns the one that the engine uses.
            run_tokens: the most tokens of one run.

        Raises:
            ArtifactError: if the artifact cannot be served.
        """
        tokenizer = load(artifact.manifest.tokenizer.kind, artifact.tokenizer_path)
        session = load_session(artifact, threads=threads)
        return cls(
            artifact.manifest,
            tokenizer,
            session if wrap is None else wrap(session),
            truncate=truncate,
            max_characters=max_characters,
            cache_entries=cache_entries,
            run_tokens=run_tokens,
        )

    def embed(
        self,
        texts: Sequence[str],
        *,
        prompt: str | None = None,
        dimensions: int | None = None,
        truncate: str | None = None,
    ) -> Embeddings:
        """Embed texts: `embed_request` for callers in Python.

        Args:
            texts: what to embed, at least one text.
            prompt: name of one of the manifest's prompts; None takes the default prompt, if any.
            dimensions: one of the manifest's values; None takes all dimensions.
            truncate: `refuse`, `right` or `left`; None takes the engine's own.
        """
        return self.embed_request(
            EmbedRequest(
                inputs=Inputs(texts=texts),
                prompt=prompt,
                dimensions=dimensions,
                truncate=truncate or self.limits.truncate,
            )
        )

    def embed_request(self, request: EmbedRequest) -> Embeddings:
        """Embed the inputs of a request.

        Returns:
            Float32 vectors in the order of the inputs, of length 1.

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
        sequences, characters = self.encoder.encode(request)
        tokenized = time.perf_counter()
        # Each input's ids as bytes, int32; equal ones share a place among the distinct.
        packed = [array("i", ids).tobytes() for ids in sequences]
        places: dict[bytes, int] = {}
        order = [places.setdefault(ids, len(places)) for ids in packed]
        whole, missing = self._recall(list(places))
        runs, queue_seconds = self._run(whole, missing, deadline, allowed)
        computed = sum([len(run.positions) * run.tokens for run in runs])
        used = sum(map(len, missing.values())) // _ID_BYTES
        if len(places) < len(order):
            whole = whole[order]
        dimensions = request.dimensions or self.limits.full_dimensions
        return Embeddings(
            vectors=truncate_vectors(whole, dimensions, normalize=request.normalize),
            tokens=[len(ids) for ids in sequences],
            vector_space=self.vector_space(dimensions, normalize=request.normalize),
            timings=Timings(
                tokenized - started, time.perf_counter() - tokenized - queue_seconds, queue_seconds
            ),
            characters=characters,
            cache_hits=len(places) - len(missing),
            repeats=len(order) - len(places),
            runs=[len(run.positions) for run in runs],
            padding_tokens=computed - used,
            computed_tokens=computed,
        )

    def vector_space(self, dimensions: int | None = None, *, normalize: bool = True) -> str:
        """Name the space of vectors with these dimensions; None takes all."""
        dimensions = dimensions or self.limits.full_dimensions
        space = self.manifest.vector_space_of(dimensions=dimensions)
        # Vectors that were cut and not brought back to length 1 are other vectors.
        whole = dimensions == self.limits.full_dimensions
        return space if normalize or whole else f"{space}/unnormalized"

    def warm(self) -> None:
        """Run the model once, so that the first request does not pay for one-time work."""
        self.embed(["warm"], truncate="right")
        self.cache.clear()

    def _recall(self, distinct: list[bytes]) -> tuple[npt.NDArray[np.float32], dict[int, bytes]]:
        """Make room for the distinct inputs' vectors, and fill in those that the cache has.

        Returns:
            Float32 [distinct inputs, all dimensions], and the ids of the rows still to be filled.
        """
        whole = np.empty((len(distinct), self.limits.full_dimensions), dtype=np.float32)
        missing = {}
        for place, kept in enumerate(self.cache.get(distinct)):
            if kept is None:
                missing[place] = distinct[place]
            else:
                whole[place] = kept
        return whole, missing

    def _run(
        self,
        whole: npt.NDArray[np.float32],
        missing: dict[int, bytes],
        deadline: float | None,
        allowed: float,
    ) -> tuple[list[Run], float]:
        """Embed the missing inputs into `whole`; return the runs and the seconds in a queue.

        `allowed` is the time in seconds that the request had when it came.
        """
        places, inputs = list(missing), list(missing.values())
        lengths = [len(ids) // _ID_BYTES for ids in inputs]
        runs = plan(lengths, limit=self.limits.max_tokens, budget=self.run_tokens)
        batches = (_batch(run, inputs, lengths) for run in runs)
        vectors: Iterable[npt.NDArray[np.float32]]
        if self._run_all is not None and runs:
            vectors, queue_seconds = _together(self._run_all, batches, deadline)
        else:
            vectors, queue_seconds = self._each(batches, deadline, allowed), 0.0
        for run, rows in zip(runs, vectors, strict=True):
            if not np.isfinite(rows).all():
                raise InferenceError
            if len(rows) == len(whole):  # One run of all inputs, which has their order.
                whole[:] = rows
            else:
                whole[[places[position] for position in run.positions]] = rows
            self.cache.put([inputs[position] for position in run.positions], rows)
        return runs, queue_seconds

    def _each(
        self, batches: Iterable[Batch], deadline: float | None, allowed: float
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Run batches one after the other, while there is time."""
        first = True
        for batch in batches:
            size = batch.input_ids.size
            if deadline is not None:
                left = deadline - time.monotonic()
                self._check_time(size, left, sure=first and left > allowed / 2)
            first = False
            began = time.monotonic()
            try:
                vectors = self._session.run(*batch)
            except Exception as error:  # ONNX Runtime's classes have no common base.
                raise InferenceError from error
            self._runtimes.add(size, time.monotonic() - began)
            yield vectors

    def _check_time(self, tokens: int, left: float, *, sure: bool) -> None:
        """Refuse a run that would not be finished; `sure`: try it while any time is left."""
        needed = None if sure else self._runtimes.seconds(tokens)
        if left > (needed or 0.0):
            return
        self._runtimes.forget(tokens)
        raise OutOfTimeError(
            f"The request needs more time than the {max(0.0, left):.1f} s left of the "
            "function's timeout; send fewer or shorter texts in one request."
        )


def _batch(run: Run, inputs: Sequence[bytes], lengths: Sequence[int]) -> Batch:
    """Make the batch of a run: each input's ids, padded to the run's length."""
    # Padded as bytes: arrays of the lengths and of the places cost a short text more than its ids.
    size = run.tokens * _ID_BYTES
    ids = b"".join([inputs[position].ljust(size, b"\0") for position in run.positions])
    mask = b"".join([(b"\1" * lengths[p]).ljust(run.tokens, b"\0") for p in run.positions])
    shape = (len(run.positions), run.tokens)
    return Batch(
        np.frombuffer(ids, np.int32).astype(np.int64).reshape(shape),
        np.frombuffer(mask, np.int8).astype(np.int64).reshape(shape),
    )


def _together(
    run_all: RunBatches, batches: Iterable[Batch], deadline: float | None
) -> tuple[Sequence[npt.NDArray[np.float32]], float]:
    try:
        return run_all(batches, deadline=deadline)
    except AnswerableError:
        raise
    except Exception as error:  # See `Engine._each`.
        raise InferenceError from error


def truncate_vectors(
    vectors: npt.NDArray[np.float32], dimensions: int, *, normalize: bool = True
) -> npt.NDArray[np.float32]:
    """Cut vectors to their first components, then bring them back to length 1.

    This is how Matryoshka embeddings are made shorter (Kusupati et al., arXiv:2205.13147).

    Args:
        vectors: float32 [n, all dimensions], rows of length 1.
        dimensions: how many components to keep.
        normalize: whether to renormalize.

    Returns:
        Float32 [n, dimensions], contiguous.
    """
    if dimensions == vectors.shape[1]:
        return vectors
    cut = np.ascontiguousarray(vectors[:, :dimensions])
    if normalize:
        lengths = np.linalg.norm(cut, axis=1, keepdims=True)
        # A row of zeros has no direction to keep.
        cut /= np.maximum(lengths, np.finfo(np.float32).tiny)
    return cut
