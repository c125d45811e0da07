"""Runs the model: which inputs share a run, how long one takes, and what the cache has.

Inputs of one padded length share runs, and an input's padded length depends only on its own length.
So the model does the same arithmetic for a text whether it comes alone or with a thousand others,
and gives the same vector to the last bit. (Padding up to the longest of a batch would not: sums of
floats change with their number, and where a sum decides how an activation is rounded to int8, a
change in the last bit becomes one in the third decimal.)

One slow run says little: the first run of an environment reads its pages over the network, and a
busy host can delay any run. So the prediction of a run's time needs several comparable runs, and it
is their median.
"""

from __future__ import annotations

import itertools
import time
from _thread import allocate_lock  # `threading` is not imported by a start
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from embedder.core.artifact import KINDS, Artifact, Manifest, digest
from embedder.core.embedding_request import CHARACTERS_PER_TOKEN, Embeddings, Timings
from embedder.core.errors import AnswerableError, ArtifactError, InferenceError, OutOfTimeError
from embedder.core.fast_tokenizers import Tokenizer, load
from embedder.core.runtimes import Batch, InferenceSession, RunBatches, load_session

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt

#: Tokens of one run, padding included. On the replica of EmbeddingGemma a token costs 1.22 ms in a
#: run of 8 tokens, 0.45 in one of 64, 0.38 in one of 256 or 512, and 0.42 and more from 1,024 on,
#: where a layer's output no longer fits the cache.
TOKEN_BUDGET = 512

#: Pairs of a length in tokens and the multiple to which lengths up to it are rounded up. Short
#: texts gain most from batching and waste least on padding; a text of over 256 tokens fills a run.
_ROUNDING = ((64, 4), (256, 8))

#: Bytes of a token id while it waits to be run.
_ID_BYTES = array("i").itemsize
#: Runs that are remembered.
_REMEMBERED = 32
#: Comparable runs that a prediction needs, and the most that it uses, newest first.
_EVIDENCE = 3
_MOST_EVIDENCE = 9
#: A run is comparable up to this ratio of the two sizes: beyond it, the time per token differs by
#: more than the prediction allows (see `TOKEN_BUDGET`).
_COMPARABLE = 2
#: Of a key of the cache, in bytes: the ids of a long text take more room than its vector.
_KEY = 16


class Run(NamedTuple):
    """Inputs that are embedded together."""

    #: Positions of the inputs, in the order in which they came.
    positions: list[int]
    #: Tokens of each, padding included.
    tokens: int


def padded_length(length: int, limit: int) -> int:
    """Return how many tokens an input is padded to: at least its own, at most the model's limit."""
    for most, multiple in _ROUNDING:
        if length <= most:
            return max(length, min(-(-length // multiple) * multiple, limit))
    return length


def plan(lengths: Sequence[int], *, limit: int, budget: int = TOKEN_BUDGET) -> list[Run]:
    """Group inputs of these lengths, in tokens, into runs of up to `budget` tokens.

    A run may always have one input. Returns the runs, longest inputs first. Every position is in
    exactly one run, and the inputs of one padded length are spread evenly.
    """
    padded = {length: padded_length(length, limit) for length in set(lengths)}
    groups: dict[int, list[int]] = {}
    for position, length in enumerate(lengths):
        groups.setdefault(padded[length], []).append(position)
    runs = []
    for tokens, positions in sorted(groups.items(), reverse=True):
        count = -(-len(positions) // max(1, budget // tokens))
        bounds = [len(positions) * part // count for part in range(count + 1)]
        runs += [Run(positions[start:stop], tokens) for start, stop in itertools.pairwise(bounds)]
    return runs


class _Measured(NamedTuple):
    tokens: int
    seconds: float


class RuntimeEstimator:
    """Predicts how long a run takes, from the last measured ones.

    Threads may share it: the list is replaced and never changed, so that a reader always has a
    whole one. Of two runs that end at the same moment, one may be lost.
    """

    def __init__(self) -> None:
        self._runs: list[_Measured] = []

    def add(self, tokens: int, seconds: float) -> None:
        """Add a run of `tokens` tokens, padding included."""
        self._runs = [*self._runs[1 - _REMEMBERED :], _Measured(tokens, seconds)]

    def seconds(self, tokens: int) -> float | None:
        """Predict the time of a run; None if there are too few comparable runs to say."""
        comparable = [run for run in self._runs if _comparable(run, tokens)][-_MOST_EVIDENCE:]
        if len(comparable) < _EVIDENCE:
            return None
        rates = sorted(run.seconds / run.tokens for run in comparable)
        return tokens * rates[len(rates) // 2]

    def forget(self, tokens: int) -> None:
        """Drop the runs that a prediction for this size uses.

        After a refusal nothing is measured, so nothing would correct a prediction that was wrong.
        Without its evidence the next run of this size is tried, and measured.
        """
        self._runs = [run for run in self._runs if not _comparable(run, tokens)]


def _comparable(run: _Measured, tokens: int) -> bool:
    return run.tokens <= _COMPARABLE * tokens and tokens <= _COMPARABLE * run.tokens


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
        keys = [digest(ids, _KEY) for ids in inputs]
        with self._lock:
            found = [vectors.get(key) for key in keys]
            for key, vector in zip(keys, found, strict=True):
                if vector is not None:
                    vectors.move_to_end(key)
        return found

    def put(self, inputs: Sequence[bytes], rows: npt.NDArray[np.float32]) -> None:
        """Keep a row, float32, for each input; if it is full, drop the least recently used ones."""
        if not self._entries:
            return
        # Copies: a view of one row would keep the whole batch's array alive.
        new = [(digest(ids, _KEY), row.copy()) for ids, row in zip(inputs, rows, strict=True)]
        vectors = self._vectors
        with self._lock:
            for key, vector in new:
                vectors[key] = vector
                vectors.move_to_end(key)
                if len(vectors) > self._entries:
                    vectors.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._vectors.clear()


class Runs:
    """The session with its cache: computes a row, float32 [width], for each input.

    For `cache_entries` and `run_tokens` see `ServedModel`.
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
        self._runtimes = RuntimeEstimator()

    def compute(self, distinct: list[bytes], deadline: float | None, allowed: float) -> Embeddings:
        """Return the row of each input, float32 [inputs, width], and what that took.

        Of the timings it has those in the queue. Errors are as of `Engine`.

        An input is its token ids, int32 as bytes; no two are equal. The rows are of no use any
        more after the deadline, a `time.monotonic()`. The request had `allowed` seconds when it
        came.
        """
        whole = np.empty((len(distinct), self._width), dtype=np.float32)
        missing = {}
        for place, kept in enumerate(self.cache.get(distinct)):
            if kept is None:
                missing[place] = distinct[place]
            else:
                whole[place] = kept
        places, inputs = list(missing), list(missing.values())
        lengths = [len(ids) // self.token_bytes for ids in inputs]
        runs = plan(lengths, limit=self._limit, budget=self._run_tokens)
        batches = (self.batch(run, inputs, lengths) for run in runs)
        rows_of_runs: Iterable[npt.NDArray[np.float32]]
        if self._run_all is not None and runs:
            try:
                rows_of_runs, queue_seconds = self._run_all(batches, deadline=deadline)
            except AnswerableError:
                raise
            except Exception as error:  # See `_each`.
                raise InferenceError from error
        else:
            rows_of_runs, queue_seconds = self._each(batches, deadline, allowed), 0.0
        for run, rows in zip(runs, rows_of_runs, strict=True):
            if not np.isfinite(rows).all():
                bad = int(np.isfinite(rows).all(axis=1).argmin())
                raise InferenceError(place=places[run.positions[bad]])
            if len(rows) == len(whole):  # One run of all inputs, which has their order.
                whole[:] = rows
            else:
                whole[[places[position] for position in run.positions]] = rows
            self.cache.put([inputs[position] for position in run.positions], rows)
        computed = sum([len(run.positions) * run.tokens for run in runs])
        return Embeddings(
            vectors=whole,
            timings=Timings(queue=queue_seconds),
            cache_hits=len(distinct) - len(missing),
            runs=[len(run.positions) for run in runs],
            padding_tokens=computed - sum(lengths),
            computed_tokens=computed,
        )

    def batch(self, run: Run, inputs: Sequence[bytes], lengths: Sequence[int]) -> Batch:
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
        return Batch(
            np.frombuffer(ids, np.int32).astype(np.int64).reshape(shape),
            np.frombuffer(mask, np.int8).astype(np.int64).reshape(shape),
        )

    def mask(self, _ids: bytes, length: int, /) -> bytes:
        """Return the mask of an input of this length, int8 as bytes."""
        return b"\1" * length

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


class SegmentRuns(Runs):
    """Runs over two parts: each input is its ids, int32, and then its segments, a byte per token.

    A segment is 1 or 2: of a reranker the token type plus 1, of a text 2 for what is not pooled.
    """

    token_bytes = _ID_BYTES + 1

    def mask(self, ids: bytes, length: int, /) -> bytes:
        """See `Runs.mask`; it has the segments."""
        return ids[length * _ID_BYTES :]


class ServedModel:
    """What serves an artifact: its tokenizer, its session, and a cache of the session's rows.

    Threads may share it, if they may share the session: ONNX Runtime's may be shared.

    A session with `run_all` gets all runs of a request at once. `truncate` is the default handling
    of an input over the limit. Without `max_characters`, the longest text is the manifest's, or
    follows from the limit of tokens. `cache_entries` rows are kept. `run_tokens`, which changes no
    row, is the most tokens of a run, padding included; one input is always allowed.

    Raises:
        ArtifactError: if the manifest is of another task.
    """

    #: The task of the artifacts that it takes.
    task: ClassVar[str]

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
        self.manifest, self.tokenizer, self.run_tokens = manifest, tokenizer, run_tokens
        computed = manifest.max_tokens * CHARACTERS_PER_TOKEN
        kind = self._prepare(truncate, max_characters or manifest.max_characters or computed)
        self._runs = kind(session, manifest, cache_entries=cache_entries, run_tokens=run_tokens)
        self.cache = self._runs.cache

    @classmethod
    def load(
        cls,
        artifact: Artifact,
        *,
        threads: int = 1,
        wrap: Callable[[InferenceSession], InferenceSession] | None = None,
        **options: Any,
    ) -> Self:
        """Load an artifact's tokenizer and session, of which a run may use some threads.

        `wrap` gets the session and returns the one that is used. What cannot be served is an
        `ArtifactError`.
        """
        tokenizer = load(artifact.manifest.tokenizer.kind, artifact.tokenizer_path)
        session = cls._open(artifact, threads)
        return cls(
            artifact.manifest, tokenizer, session if wrap is None else wrap(session), **options
        )

    @classmethod
    def _open(cls, artifact: Artifact, threads: int) -> InferenceSession:
        return load_session(artifact, threads=threads)

    def _prepare(self, truncate: str, max_characters: int) -> type[Runs]:
        """Set up what this kind of model has besides, and return the kind of its runs."""
        raise NotImplementedError

    def _run(
        self,
        packed: Sequence[bytes],
        tokens: Sequence[int],
        *,
        characters: int,
        started: float,
        deadline: float | None,
    ) -> Embeddings:
        """Compute the row of each input, equal ones once; the result has no vector space yet.

        The inputs are as `Runs` takes them, `started` is the `time.perf_counter()` at which the
        request came. An `InferenceError` has the place of the first input without a row.
        """
        tokenized = time.perf_counter()
        spent = tokenized - started
        allowed = 0.0 if deadline is None else deadline - time.monotonic() + spent
        places: dict[bytes, int] = {}
        order = [places.setdefault(each, len(places)) for each in packed]
        try:
            found = self._runs.compute(list(places), deadline, allowed)
        except InferenceError as error:
            if error.place is not None:
                error.place = order.index(error.place)
            raise
        rows, queue = found.vectors, found.timings.queue
        return found._replace(
            vectors=rows[order] if len(places) < len(order) else rows,
            tokens=tokens,
            timings=Timings(spent, time.perf_counter() - tokenized - queue, queue),
            characters=characters,
            repeats=len(order) - len(places),
        )
