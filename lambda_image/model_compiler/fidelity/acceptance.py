"""Runs a finished artifact as the embedder will, and rejects it if its vectors are inaccurate."""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from embedder.core.artifact import Artifact, parse_manifest
from embedder.core.engine import Engine
from embedder.core.errors import EmbedderError
from embedder.core.fast_tokenizers import load
from embedder.core.reranker import Reranker
from embedder.core.runtimes import InferenceSession, load_session
from model_compiler.artifact.manifest import manifest_bytes
from model_compiler.errors import FidelityError, PrecisionError, SourceError
from model_compiler.fidelity.measure import (
    DIGITS,
    DOCUMENTS,
    DenseRows,
    Fidelity,
    ScoreFidelity,
    Thresholds,
    batch_difference,
    batch_invariance,
    batch_problems,
    difference_problems,
    golden_entries,
    golden_pairs,
    golden_problems,
    measure,
    measure_scores,
    problems,
    rounded,
    score_problems,
    score_table,
    table,
)
from model_compiler.model.base import Graph, Model
from model_compiler.source.catalog import Golden
from model_compiler.supervision import budget

#: What runs an artifact of each task.
KINDS: dict[str, type[Engine | Reranker]] = {
    "embed": Engine,
    "rerank": Reranker,
    "sparse": DenseRows,
}


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What was measured of an artifact."""

    #: The manifest's report.
    report: dict[str, Any]
    #: The report as lines for a reader.
    table: str
    #: A message for each threshold that is missed, and for each golden value of the catalog.
    missed: list[str]
    wrong: list[str]
    #: The manifest's golden entries.
    golden: list[dict[str, Any]]
    #: CPU time until the graph was loaded. It is not in the report: it differs between machines.
    start_seconds: float = 0.0


def accept(
    model: Model,
    graph: Graph,
    folder: Path,
    content: Mapping[str, Any],
    *,
    golden: tuple[Golden, ...] = (),
    thresholds: Thresholds | None,
    documents: int = DOCUMENTS,
    progress: bool = False,
) -> Acceptance:
    """Measure an artifact before its manifest, which will be `content`, is written.

    Raises a PrecisionError if the vectors are too far from those of full precision, a FidelityError
    if they miss another threshold, and a SourceError if the graph cannot be run, or gives no
    embedding. Without `thresholds`, any vectors are accepted.
    """
    # The manifest is written last, so that an interrupted compile leaves nothing that loads.
    manifest = parse_manifest(manifest_bytes(content), where=str(folder))
    try:
        began = time.process_time()
        artifact = Artifact(folder, manifest)
        session = _loaded(artifact)
        start_seconds = time.process_time() - began
        _check_shape(session, model)
        tokenizer = load(manifest.tokenizer.kind, artifact.tokenizer_path)
        kind = KINDS[model.task]
        engine = kind(manifest, tokenizer, session, truncate="right")
        against = None
        if model.reference and thresholds:
            against = partial(_compare, model, graph, engine, folder, progress=progress)
        if isinstance(engine, Reranker):
            measured = _measure_scores(engine, against, thresholds, progress=progress)
        else:
            compare = partial(measure, golden=golden, documents=documents, progress=progress)
            measured = _measure_vectors(engine, against, compare, golden, thresholds)
        if measured.missed or measured.wrong:
            found = "; ".join([*measured.missed, *measured.wrong])
            message = (
                f"The {'scores' if model.scoring else 'vectors'} of {model.label} differ too much "
                f"from the model's own: {found}. {model.remedy}"
            )
            # Only a difference from full precision can be mended by more of it.
            if against and not measured.wrong:
                raise PrecisionError(message, found)
            raise FidelityError(message)
        return replace(measured, start_seconds=start_seconds)
    except EmbedderError as error:
        # The embedder hides the cause from its callers; here it is useful.
        cause = f" {error.__cause__}" if error.__cause__ else ""
        raise SourceError(f"The embedder cannot run {model.label}: {error}{cause}") from error


def _measure_vectors(
    engine: Engine,
    against: Callable[..., Fidelity] | None,
    compare: partial[Fidelity],
    golden: tuple[Golden, ...],
    thresholds: Thresholds | None,
) -> Acceptance:
    if against and thresholds:
        fidelity = against(compare)
        missed, wrong = problems(fidelity, thresholds), golden_problems(fidelity, golden)
        report, lines = rounded(fidelity), table(fidelity)
    else:
        cosine = batch_invariance(engine, progress=compare.keywords["progress"])
        missed, wrong = batch_problems(cosine, thresholds) if thresholds else [], []
        report = {"batch_cosine_min": round(cosine, DIGITS)}
        lines = f"  lowest cosine alone to batched  {cosine:.7f}"
    return Acceptance(report, lines, missed, wrong, golden_entries(engine))


def _measure_scores(
    reranker: Reranker,
    against: Callable[..., ScoreFidelity] | None,
    thresholds: Thresholds | None,
    *,
    progress: bool,
) -> Acceptance:
    if against and thresholds:
        fidelity = against(partial(measure_scores, progress=progress))
        missed = score_problems(fidelity, thresholds)
        report, lines = rounded(fidelity), score_table(fidelity)
    else:
        difference = batch_difference(reranker)
        missed = difference_problems(difference) if thresholds else []
        report, lines = {"batch_difference_max": difference}, ""
    return Acceptance(report, lines, missed, [], golden_pairs(reranker))


def _compare(
    model: Model,
    graph: Graph,
    engine: Engine | Reranker,
    folder: Path,
    compare: Callable[..., Any],
    *,
    progress: bool,
) -> Any:
    """Compare with full precision, which is written next to the artifact for that time."""
    reference, manifest = model.reference, engine.manifest
    if reference is None or reference is model:
        return compare(engine, engine, multiply_adds=graph.multiply_adds)
    if reference.dimensions != model.dimensions:
        raise SourceError(
            f"{reference.label} has {reference.dimensions} dimensions; {model.label}, which is "
            f"compared with it, has {model.dimensions}."
        )
    # Not in the system's temporary folder, which may be small or in memory. If this compile is
    # killed, the next one removes it with the unfinished artifact.
    with tempfile.TemporaryDirectory(prefix="reference-", dir=folder) as name:
        full = reference.write(Path(name), progress=progress)
        entry = manifest.graph._replace(inputs=tuple(full.inputs), output=full.output)
        session = _loaded(Artifact(name, manifest._replace(graph=entry)))
        exact = type(engine)(manifest, engine.tokenizer, session, truncate="right")
        return compare(engine, exact, multiply_adds=full.multiply_adds)


class _Bounded:
    """A session, each run of which may take an hour of CPU: an export may loop for ever."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    @budget("a run of the graph", seconds=3600)
    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Embed a batch; see `InferenceSession.run`."""
        return self._session.run(input_ids, attention_mask)


@budget("loading the graph", seconds=600)
def _loaded(artifact: Artifact) -> InferenceSession:
    return _Bounded(load_session(artifact))


@budget("a run of the graph on two short texts", seconds=60)
def _check_shape(session: InferenceSession, model: Model) -> None:
    """Check the shape of a batch's output, which can differ from the declared one."""
    ids = np.zeros((2, 3), np.int64)
    try:
        shape = session.run(ids, np.ones_like(ids)).shape
    except Exception as error:  # ONNX Runtime's exceptions have no common base.
        raise SourceError(
            f"The embedder cannot run {model.label} on a batch of two texts: {error}"
        ) from error
    if shape != (2, model.dimensions):
        raise SourceError(
            f"For two texts, {model.label} returns an array of shape {list(shape)}; it must be "
            f"{[2, model.dimensions]}: one vector per text."
        )
