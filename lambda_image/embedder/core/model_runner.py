"""Runs a loaded model: its session, with a cache of the rows that the session has computed."""

from __future__ import annotations

import time
from _thread import allocate_lock  # noqa: PLC2701  (`threading` is not imported by a start)
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from embedder.core.artifact import Manifest, digest
from embedder.core.embedding_request import Embeddings, Timings
from embedder.core.errors import AnswerableError, InferenceError, OutOfTimeError
from embedder.core.planning import PlannedRun, RuntimeEstimator, plan

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt

#: Bytes of a token id while it waits to be run.
_ID_BYTES = array("i").itemsize
#: Bytes of a key of the cache: the ids of a long text take more room than its vector.
_KEY_BYTES = 16


class TokenBatch(NamedTuple):
    """The arguments of `InferenceSession.run`."""

    input_ids: npt.NDArray[np.int64]
    attention_mask: npt.NDArray[np.int64]


class InferenceSession(Protocol):
    """The interface that a runner needs from a session."""

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Return the vectors of a batch, float32 [batch, dimensions], rows of length 1.

        Both arguments are [batch, tokens], special tokens included. The mask is 1 for a token and 0
        for padding. Ids of padding are ignored but must be in the vocabulary. Each row has a token.
        """


class LoadedSession(InferenceSession, Protocol):
    """A session of an artifact."""

    #: The file of the graph that it runs.
    graph_file: str


class RunResult(NamedTuple):
    """The result of `RunBatches`."""

    #: The vectors of each batch, in the order of the batches; see `InferenceSession.run`.
    vectors: Sequence[npt.NDArray[np.float32]]
    #: Seconds in which none of the batches ran.
    queue_seconds: float


class RunBatches(Protocol):
    """The method `run_all` of a session that many requests use at the same time.

    It gets all batches of a request at once, decides their order among those of other requests, and
    may run those of several requests together. No batch is started after the deadline, a
    `time.monotonic()`.
    """

    def __call__(
        self, batches: Iterable[TokenBatch], *, deadline: float | None = None
    ) -> RunResult:
        """Embed the batches of one request; an `AnswerableError` says why they were not run."""


class VectorCache:
    """At most `entries` full-size vectors, those used last, by the token ids of their inputs.

    One cache serves one artifact, so that its keys can never meet those of another vector space.
    Equal ids give equal vectors, whatever prompt or truncation led to them. Threads may share it:
    finding a vector and moving it in the order are two steps, so a lock is taken, once for all
    inputs of a call.
    """

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._lock = allocate_lock()
        self._vectors: OrderedDict[bytes, npt.NDArray[np.float32]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._vectors)

    def get(self, inputs: Sequence[bytes]) -> list[npt.NDArray[np.float32] | None]:
        """Return the inputs' vectors, or None, and make those the most recently used ones."""
        vectors = self._vectors
        if not vectors:
            return [None] * len(inputs)
        keys = [digest(ids, _KEY_BYTES) for ids in inputs]
        with self._lock:
            cached = [vectors.get(key) for key in keys]
            for key, vector in zip(keys, cached, strict=True):
                if vector is not None:
                    vectors.move_to_end(key)
        return cached

    def put(self, inputs: Sequence[bytes], rows: npt.NDArray[np.float32]) -> None:
        """Keep a row, float32, for each input; if it is full, drop the least recently used ones."""
        if not self._entries:
            return
        # Copies: a view of one row would keep the whole batch's array alive.
        copies = [
            (digest(ids, _KEY_BYTES), row.copy()) for ids, row in zip(inputs, rows, strict=True)
        ]
        vectors = self._vectors
        with self._lock:
            for key, vector in copies:
                vectors[key] = vector
                vectors.move_to_end(key)
                if len(vectors) > self._entries:
                    vectors.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._vectors.clear()


class ModelRunner:
    """A session with a cache of its rows: it has a row, float32 [width], for each input.

    For `cache_entries` and `run_tokens` see `LoadedModel`.
    """

    #: Bytes of a token of an input.
    token_bytes = _ID_BYTES
    #: Whether rows are small enough to be kept.
    keeps_rows = True

    def __init__(
        self, session: InferenceSession, manifest: Manifest, *, cache_entries: int, run_tokens: int
    ) -> None:
        self._session = session
        self._run_all: RunBatches | None = getattr(session, "run_all", None)
        scoring = manifest.scoring
        self._width = len(scoring.labels) if scoring else manifest.full_dimensions
        self._limit, self._run_tokens = manifest.max_tokens, run_tokens
        self.cache = VectorCache(cache_entries if self.keeps_rows else 0)
        self._estimator = RuntimeEstimator()

    def compute(self, distinct: list[bytes], deadline: float | None, allowed: float) -> Embeddings:
        """Return the row of each input, float32 [inputs, width], and what that took.

        The timings have the time in the queue only. Errors are those of `Engine.embed_request`.

        An input is its token ids, int32 as bytes; no two are equal. The rows are of no use any
        more after the deadline, a `time.monotonic()`. The request had `allowed` seconds when it
        came.
        """
        all_rows = np.empty((len(distinct), self._width), dtype=np.float32)
        missing = {}
        for index, vector in enumerate(self.cache.get(distinct)):
            if vector is None:
                missing[index] = distinct[index]
            else:
                all_rows[index] = vector
        indexes, inputs = list(missing), list(missing.values())
        lengths = [len(ids) // self.token_bytes for ids in inputs]
        runs = plan(lengths, limit=self._limit, budget=self._run_tokens)
        batches = (self.batch(run, inputs, lengths) for run in runs)
        rows_of_runs: Iterable[npt.NDArray[np.float32]]
        if self._run_all is not None and runs:
            try:
                rows_of_runs, queue_seconds = self._run_all(batches, deadline=deadline)
            except AnswerableError:
                raise
            except Exception as error:  # See `_one_by_one`.
                raise InferenceError from error
        else:
            rows_of_runs, queue_seconds = self._one_by_one(batches, deadline, allowed), 0.0
        for run, rows in zip(runs, rows_of_runs, strict=True):
            if not np.isfinite(rows).all():
                not_finite = int(np.isfinite(rows).all(axis=1).argmin())
                raise InferenceError(place=indexes[run.positions[not_finite]])
            if len(rows) == len(all_rows):  # One run of all inputs, which has their order.
                all_rows[:] = rows
            else:
                all_rows[[indexes[position] for position in run.positions]] = rows
            self.cache.put([inputs[position] for position in run.positions], rows)
        computed = sum([len(run.positions) * run.tokens for run in runs])
        return Embeddings(
            vectors=all_rows,
            timings=Timings(queue=queue_seconds),
            cache_hits=len(distinct) - len(missing),
            runs=[len(run.positions) for run in runs],
            padding_tokens=computed - sum(lengths),
            computed_tokens=computed,
        )

    def batch(self, run: PlannedRun, inputs: Sequence[bytes], lengths: Sequence[int]) -> TokenBatch:
        """Make the batch of a run: each input's ids, padded to the run's length."""
        # Padded as bytes: arrays of the lengths and of the places cost a short text more than its
        # ids.
        size = run.tokens * _ID_BYTES
        ids = b"".join(
            [inputs[p][: lengths[p] * _ID_BYTES].ljust(size, b"\0") for p in run.positions]
        )
        mask = b"".join(
            [self.mask(inputs[p], lengths[p]).ljust(run.tokens, b"\0") for p in run.positions]
        )
        shape = (len(run.positions), run.tokens)
        return TokenBatch(
            np.frombuffer(ids, np.int32).astype(np.int64).reshape(shape),
            np.frombuffer(mask, np.int8).astype(np.int64).reshape(shape),
        )

    def mask(self, _ids: bytes, length: int, /) -> bytes:
        """Return the mask of an input of this length, int8 as bytes."""
        return b"\1" * length

    def _one_by_one(
        self, batches: Iterable[TokenBatch], deadline: float | None, allowed: float
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Run batches one after the other, while there is time."""
        is_first = True
        for batch in batches:
            size = batch.input_ids.size
            if deadline is not None:
                remaining = deadline - time.monotonic()
                self._check_time(
                    size, remaining, ignores_estimate=is_first and remaining > allowed / 2
                )
            is_first = False
            began = time.monotonic()
            try:
                vectors = self._session.run(*batch)
            except Exception as error:  # ONNX Runtime's classes have no common base.
                raise InferenceError from error
            self._estimator.add(size, time.monotonic() - began)
            yield vectors

    def _check_time(self, tokens: int, remaining: float, *, ignores_estimate: bool) -> None:
        """Refuse a run that would not be finished in the remaining seconds."""
        needed = None if ignores_estimate else self._estimator.seconds(tokens)
        if remaining > (needed or 0.0):
            return
        self._estimator.forget(tokens)
        raise OutOfTimeError(
            f"The request needs more time than the {max(0.0, remaining):.1f} s left of the "
            "function's timeout; send fewer or shorter texts in one request."
        )


class SegmentRunner(ModelRunner):
    """A runner for inputs of two parts: the ids, int32, and then the segments, a byte per token.

    A segment is 1 or 2: of a reranker the token type plus 1, of a text 2 for tokens that are not
    pooled.
    """

    token_bytes = _ID_BYTES + 1

    def mask(self, ids: bytes, length: int, /) -> bytes:
        """See `ModelRunner.mask`; it has the segments."""
        return ids[length * _ID_BYTES :]
