"""Runs a finished artifact as the embedder will, and rejects it if its vectors are inaccurate.

If int8 is the reason, some layers are chosen to stay in float32.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper

from embedder.core.artifact import Artifact, parse_manifest
from embedder.core.classifier import Classifier
from embedder.core.engine import Engine
from embedder.core.errors import EmbedderError
from embedder.core.fast_tokenizers import Tokenizer, load
from embedder.core.loaded_model import load_session
from embedder.core.model_runner import InferenceSession
from embedder.core.reranker import Reranker
from embedder.core.scorer import Scorer
from embedder.core.session import Session, add_operator, has_kernel, session_options
from model_compiler.artifact.manifest import manifest_bytes
from model_compiler.errors import FidelityError, PrecisionError, SourceError
from model_compiler.fidelity import measure, scores
from model_compiler.graph.builder import Precision
from model_compiler.model.base import CompilerModel, Graph
from model_compiler.model.compiled import CompiledModel
from model_compiler.source.catalog import CatalogGolden
from model_compiler.supervision import budget

Floats = npt.NDArray[np.float32]

#: Number of the report's texts that are compared, and of the tokens of each.
TEXTS = 20
TOKENS = 64
#: Those that are compared where the kit's operators are slow.
SHORT_TEXTS = 3
#: Rows of full precision that are kept, more than are compared.
REFERENCE_ROWS = 10_000
#: The relative error of a state that is not finite.
BROKEN = 1e9

#: What runs an artifact of each task.
ENGINES: dict[str, type[Engine | Scorer]] = {
    "classify": Classifier,
    "embed": Engine,
    "rerank": Reranker,
    "sparse": measure.DenseRows,
}


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The measured values of an artifact."""

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
    model: CompilerModel,
    graph: Graph,
    folder: Path,
    content: Mapping[str, Any],
    *,
    golden: tuple[CatalogGolden, ...] = (),
    thresholds: measure.Thresholds | None,
    documents: int = measure.DOCUMENTS,
    progress: bool = False,
) -> Acceptance:
    """Measure an artifact before its manifest, which will be `content`, is written.

    Raises a PrecisionError if the vectors are too far from those of full precision, a FidelityError
    if they miss another threshold, and a SourceError if the graph cannot be run, or gives no
    embedding. Without `thresholds`, any vectors are accepted.
    """
    # The manifest is written last, so that an interrupted compile leaves nothing that loads.
    manifest = parse_manifest(manifest_bytes(content), where=str(folder))
    plain = manifest.graph._replace(operator_file=None)
    try:
        began = time.process_time()
        artifact = Artifact(folder, manifest._replace(graph=plain))
        session = _loaded(artifact)
        start_seconds = time.process_time() - began
        _check_shape(session, model)
        tokenizer = load(manifest.tokenizer.kind, artifact.tokenizer_path)
        engine = ENGINES[model.task](manifest, tokenizer, session, truncate="right")
        against = None
        if model.reference and thresholds:
            engines = [engine]
            operator = _with_operator(Artifact(folder, manifest))
            if operator and has_kernel():
                engines.append(type(engine)(manifest, tokenizer, operator, truncate="right"))
            elif operator:
                _check_operator(model, session, operator, tokenizer, thresholds)
            against = partial(_compare, model, graph, engines, folder, progress=progress)
        if isinstance(engine, Scorer):
            measured = _measure_scores(engine, against, thresholds, progress=progress)
        else:
            compare = partial(
                measure.measure, golden=golden, documents=documents, progress=progress
            )
            measured = _measure_vectors(engine, against, compare, golden, thresholds)
        if measured.missed or measured.wrong:
            misses = "; ".join([*measured.missed, *measured.wrong])
            message = (
                f"The {'scores' if model.scoring else 'vectors'} of {model.label} differ too much "
                f"from the model's own: {misses}. {model.remedy}"
            )
            # Only a difference from full precision can be mended by more of it.
            if against and not measured.wrong:
                raise PrecisionError(message, misses)
            raise FidelityError(message)
        lines = filter(None, (measured.table, measure.unknown_tokens(tokenizer)))
        return replace(measured, table="\n".join(lines), start_seconds=start_seconds)
    except EmbedderError as error:
        # The embedder hides the cause from its callers; here it is useful.
        cause = f" {error.__cause__}" if error.__cause__ else ""
        raise SourceError(f"The embedder cannot run {model.label}: {error}{cause}") from error


def _measure_vectors(
    engine: Engine,
    against: Callable[..., list[measure.Fidelity]] | None,
    compare: partial[measure.Fidelity],
    golden: tuple[CatalogGolden, ...],
    thresholds: measure.Thresholds | None,
) -> Acceptance:
    if against and thresholds:
        values = against(compare)
        missed = [miss for fidelity in values for miss in measure.problems(fidelity, thresholds)]
        wrong = measure.golden_problems(values[0], golden)
        report, lines = measure.rounded(values[0]), _tables(values, measure.table)
    else:
        cosine = measure.batch_invariance(engine, progress=compare.keywords["progress"])
        missed, wrong = measure.batch_problems(cosine, thresholds) if thresholds else [], []
        report = {"batch_cosine_min": round(cosine, measure.DIGITS)}
        lines = f"  lowest cosine alone to batched  {cosine:.7f}"
    return Acceptance(report, lines, missed, wrong, measure.golden_entries(engine))


def _measure_scores(
    scorer: Scorer,
    against: Callable[..., list[Any]] | None,
    thresholds: measure.Thresholds | None,
    *,
    progress: bool,
) -> Acceptance:
    if against and thresholds:
        values = against(partial(scores.measure_scores, progress=progress))
        missed = [miss for fidelity in values for miss in scores.problems(fidelity, thresholds)]
        report, lines = measure.rounded(values[0]), _tables(values, scores.table)
    else:
        difference = scores.batch_difference(scorer)
        missed = scores.difference_problems(difference) if thresholds else []
        report, lines = {"batch_difference_max": difference}, ""
    return Acceptance(report, lines, missed, [], scores.golden_scores(scorer))


def _tables(values: Sequence[Any], table: Callable[[Any], str]) -> str:
    """Return the report of the graph, and that of the one with the operators if it was measured."""
    tables = [table(fidelity) for fidelity in values]
    return "\n  With the kit's operators, as on this machine:\n".join(tables)


def _compare(
    model: CompilerModel,
    graph: Graph,
    engines: Sequence[Engine | Scorer],
    folder: Path,
    compare: Callable[..., Any],
    *,
    progress: bool,
) -> list[Any]:
    """Compare with full precision, which is written next to the artifact for that time.

    The engines are of the artifact's graphs; the first is the one that runs everywhere.
    """
    reference, engine = model.reference, engines[0]
    manifest = engine.manifest
    if reference is None or reference is model:
        return [compare(engine, engine, multiply_adds=graph.multiply_adds)]
    if reference.dimensions != model.dimensions:
        raise SourceError(
            f"{reference.label} has {reference.dimensions} dimensions; {model.label}, which is "
            f"compared with it, has {model.dimensions}."
        )
    # Not in the system's temporary folder, which may be small or in memory. If this compile is
    # killed, the next one removes it with the unfinished artifact.
    with tempfile.TemporaryDirectory(prefix="reference-", dir=folder) as name:
        full = reference.write(Path(name), progress=progress)
        entry = manifest.graph._replace(
            inputs=tuple(full.inputs), output=full.output, operator_file=None
        )
        session = _loaded(Artifact(name, manifest._replace(graph=entry)))
        # What it has computed once is not computed again.
        exact = type(engine)(
            manifest, engine.tokenizer, session, truncate="right", cache_entries=REFERENCE_ROWS
        )
        return [compare(engine, exact, multiply_adds=full.multiply_adds) for engine in engines]


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


@budget("loading the graph with the kit's operators", seconds=600)
def _with_operator(artifact: Artifact) -> InferenceSession | None:
    """Return the graph with the kit's operators, if there is one and its library can be loaded."""
    file = artifact.manifest.graph.operator_file
    if file is None:
        return None
    session = Session(artifact, operator=True)
    return _Bounded(session) if session.graph_file == file else None


def _check_operator(
    model: CompilerModel,
    plain: InferenceSession,
    operator: InferenceSession,
    tokenizer: Tokenizer,
    thresholds: measure.Thresholds,
) -> None:
    """Compare the artifact's graphs on a few short texts.

    Where the operators have no kernel for the processor, they are in plain C, which has the same
    bits and takes a hundred times as long: too long for the texts of the report.
    """
    outputs: list[list[Floats]] = [[], []]
    for sequence in sorted(_sequences(tokenizer, model.max_tokens), key=len)[:SHORT_TEXTS]:
        ids = np.array([sequence], np.int64)
        for graph, session in zip(outputs, (plain, operator), strict=True):
            graph.append(session.run(ids, np.ones_like(ids)).ravel())
    one, other = (np.concatenate(graph) for graph in outputs)
    cosine = float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))
    if not cosine >= thresholds.cosine_min:
        misses = f"the cosine between its graphs is {cosine:.4f}, below {thresholds.cosine_min}"
        raise PrecisionError(
            f"The graphs of {model.label} differ: {misses}. {model.remedy}", misses
        )


@budget("a run of the graph on two short texts", seconds=60)
def _check_shape(session: InferenceSession, model: CompilerModel) -> None:
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


def with_more_float32(
    model: CompilerModel, graph: Graph, folder: Path, tokenizer: Tokenizer
) -> CompiledModel | None:
    """Return the model with more of its int8 layers in float32; None if there are no more.

    It is one layer at first, then twice as many each time, so that a large model is not compiled
    once for each of its layers. The first are those in which the relative error of the hidden state
    grows most, compared with the same graph with all layers in float32.
    """
    if not isinstance(model, CompiledModel) or model.precision is Precision.FP32:
        return None
    float32_layers = model.float32_layers
    int8_layers = [layer for layer in range(len(graph.layers)) if layer not in float32_layers]
    if not int8_layers:
        return None
    sequences = _sequences(tokenizer, model.max_tokens)
    states = _hidden_states(folder, graph, sequences)
    # Not the full-precision model: its hidden states are in another basis.
    exact_model = replace(model, float32_layers=frozenset(range(len(graph.layers))))
    with tempfile.TemporaryDirectory(prefix="reference-", dir=folder) as name:
        exact = _hidden_states(Path(name), exact_model.write(Path(name)), sequences)
    growth = _growth(states, exact)
    worst = sorted(int8_layers, key=lambda layer: -growth[layer])[: max(1, len(float32_layers))]
    return replace(model, float32_layers=float32_layers | set(worst))


def _sequences(tokenizer: Tokenizer, max_tokens: int) -> list[list[int]]:
    every = list(measure.texts().values())
    room = min(TOKENS, max_tokens) - len(tokenizer.prefix) - len(tokenizer.suffix)
    return [
        [*tokenizer.prefix, *tokenizer.encode(text)[:room], *tokenizer.suffix]
        for text in every[:: max(1, len(every) // TEXTS)]
    ]


def _hidden_states(
    folder: Path, graph: Graph, sequences: Sequence[Sequence[int]]
) -> list[list[Floats]]:
    """Return the output of each layer for each text, float32 [tokens, width].

    They are those of the graph with the kit's operators where it was measured: it rounds more.
    """
    options, file = session_options("none", threads=1), graph.file
    if graph.operator_file and has_kernel() and add_operator(options):
        file = graph.operator_file
    proto = onnx.load(folder / file, load_external_data=False)
    layers = list(graph.layers)
    proto.graph.output.extend(helper.make_empty_tensor_value_info(layer) for layer in layers)
    path = folder / "layers.onnx"
    path.write_bytes(proto.SerializeToString())
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    path.unlink()
    inputs = [entry.name for entry in session.get_inputs()]
    states = []
    for sequence in sequences:
        ids = np.array([sequence], np.int64)
        feed = dict(zip(inputs, (ids, np.ones_like(ids)), strict=True))
        # Some graphs pad a text inside: what follows its tokens does not matter.
        states.append([output[0, : len(sequence)] for output in session.run(layers, feed)])
    return states


def _growth(found: list[list[Floats]], exact: list[list[Floats]]) -> list[float]:
    """Return for each layer by how much it adds to the mean relative error of its texts."""
    errors = np.array(
        [
            [
                np.linalg.norm(one - other) / max(float(np.linalg.norm(other)), 1e-12)
                for one, other in zip(states, wanted, strict=True)
            ]
            for states, wanted in zip(found, exact, strict=True)
        ]
    )
    mean = np.nan_to_num(errors, nan=BROKEN, posinf=BROKEN).mean(axis=0)
    growth: list[float] = np.diff(mean, prepend=0.0).tolist()
    return growth
