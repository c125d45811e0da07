"""The base of models that are loaded from an artifact: the engine, and the reranker."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

from embedder.core.artifact import TASKS, Artifact, Manifest
from embedder.core.embedding_request import CHARACTERS_PER_TOKEN, Embeddings, Timings
from embedder.core.errors import ArtifactError, InferenceError
from embedder.core.fast_tokenizers import Tokenizer, load
from embedder.core.model_runner import InferenceSession, LoadedSession, ModelRunner
from embedder.core.planning import TOKEN_BUDGET


class LoadedModel:
    """A model that an artifact holds: its tokenizer, and a runner of its session.

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
                f"{manifest.model.name} is {manifest.kind}; {TASKS[self.task]}'s artifact is "
                "needed."
            )
        self.manifest, self.tokenizer, self.run_tokens = manifest, tokenizer, run_tokens
        #: The file of the graph that runs.
        self.graph_file = manifest.graph.file
        most_characters = manifest.max_tokens * CHARACTERS_PER_TOKEN
        self._configure(truncate, max_characters or manifest.max_characters or most_characters)
        self._runner = self.runner_type(
            session, manifest, cache_entries=cache_entries, run_tokens=run_tokens
        )
        self.cache = self._runner.cache

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
        model = cls(
            artifact.manifest, tokenizer, session if wrap is None else wrap(session), **options
        )
        model.graph_file = session.graph_file
        return model

    def warm(self, texts: Sequence[str] = ("warm",)) -> None:
        """Run the model on some texts, so that the first request does not pay for one-time work."""
        raise NotImplementedError

    @classmethod
    def _open(cls, artifact: Artifact, threads: int) -> LoadedSession:
        return load_session(artifact, threads=threads)

    @property
    def runner_type(self) -> type[ModelRunner]:
        """The class of its runner."""
        return ModelRunner

    def _configure(self, truncate: str, max_characters: int) -> None:
        """Set the attributes that only this kind of model has, before there is a runner."""
        raise NotImplementedError

    def _compute(
        self,
        packed: Sequence[bytes],
        tokens: Sequence[int],
        *,
        characters: int,
        started: float,
        deadline: float | None,
    ) -> Embeddings:
        """Compute the row of each input, equal ones once; the result has no vector space yet.

        The inputs are as a `ModelRunner` takes them. The request came at `started`, a
        `time.perf_counter()`. An `InferenceError` has the place of the first input without a row.
        """
        tokenized = time.perf_counter()
        spent = tokenized - started
        allowed = 0.0 if deadline is None else deadline - time.monotonic() + spent
        row_numbers: dict[bytes, int] = {}
        order = [row_numbers.setdefault(ids, len(row_numbers)) for ids in packed]
        try:
            computed = self._runner.compute(list(row_numbers), deadline, allowed)
        except InferenceError as error:
            if error.place is not None:
                error.place = order.index(error.place)
            raise
        rows, queue = computed.vectors, computed.timings.queue
        return computed._replace(
            vectors=rows[order] if len(row_numbers) < len(order) else rows,
            tokens=tokens,
            timings=Timings(spent, time.perf_counter() - tokenized - queue, queue),
            characters=characters,
            repeats=len(order) - len(row_numbers),
        )


def load_session(artifact: Artifact, *, threads: int = 1) -> LoadedSession:
    """Load an artifact's graph into its runtime; `threads` is for one run of ONNX Runtime."""
    # Imported here: ONNX Runtime is most of a start, and a static model does not need it.
    if artifact.manifest.graph.runtime == "numpy":
        from embedder.core.static_session import StaticSession, WeightsSession  # noqa: PLC0415

        sparse = artifact.manifest.task == "sparse"
        return WeightsSession(artifact) if sparse else StaticSession(artifact)
    from embedder.core.session import Session  # noqa: PLC0415

    return Session(artifact, threads=threads)
