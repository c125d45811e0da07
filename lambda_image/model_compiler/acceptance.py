"""Runs a finished artifact beside its own full precision, and refuses it if it is too far off."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedder.artifact import Artifact, parse_manifest
from embedder.engine import Engine
from embedder.errors import EmbedderError
from embedder.session import Session
from model_compiler.artifact_writer import manifest_bytes
from model_compiler.catalogue import Golden
from model_compiler.errors import FidelityError
from model_compiler.fidelity import (
    DOCUMENTS,
    Fidelity,
    Thresholds,
    golden_entries,
    measure,
    problems,
    texts,
)
from model_compiler.graph_file import GRAPH_FILE, Graph, write_graph
from model_compiler.model_folder import ModelFolder
from model_compiler.quantization import Precision
from model_compiler.worst_layer import worst_layer

__all__ = ["accept"]

#: How many texts, and how many tokens of each, are looked at to find the worst layer.
LAYER_TEXTS = 4
LAYER_TOKENS = 64


def accept(
    model: ModelFolder,
    folder: Path,
    content: Mapping[str, Any],
    graph: Graph,
    *,
    golden: tuple[Golden, ...] = (),
    thresholds: Thresholds,
    documents: int = DOCUMENTS,
    progress: bool = False,
) -> tuple[Fidelity, list[dict[str, Any]]]:
    """Measure an artifact whose manifest is not written yet.

    Args:
        model: what it was compiled from.
        folder: the artifact's files.
        content: what its manifest will say.
        graph: its graph.
        golden: the catalogue's golden values.
        thresholds: what it must reach.
        documents: among how many docstrings the nearest neighbors are compared, at most.
        progress: whether to draw progress bars.

    Returns:
        The report, and the manifest's golden entries.

    Raises:
        FidelityError: if it cannot be run, or misses a threshold; then the message names the
            worst layer.
    """
    try:
        return _measured(
            model,
            folder,
            content,
            graph,
            golden=golden,
            thresholds=thresholds,
            documents=documents,
            progress=progress,
        )
    except EmbedderError as error:
        raise FidelityError(f"The compiled model cannot be run: {error}") from error


def _measured(
    model: ModelFolder,
    folder: Path,
    content: Mapping[str, Any],
    graph: Graph,
    *,
    golden: tuple[Golden, ...],
    thresholds: Thresholds,
    documents: int,
    progress: bool,
) -> tuple[Fidelity, list[dict[str, Any]]]:
    # The manifest's file comes last of all, so that what a killed compile leaves cannot be loaded.
    artifact = Artifact(folder, parse_manifest(manifest_bytes(content), where=str(folder)))
    engine = Engine.load(artifact, truncate="right")
    if artifact.manifest.precision == Precision.FP32:
        report = measure(
            engine,
            engine,
            golden=golden,
            multiply_adds=graph.multiply_adds,
            documents=documents,
            progress=progress,
        )
        _refuse(problems(report, thresholds, golden), worst="")
        return report, golden_entries(engine)
    # Not in the system's temporary folder, which may be small or in memory, but where it is cleared
    # away with the rest if this compile is killed.
    with tempfile.TemporaryDirectory(prefix="reference-", dir=folder) as name:
        full = write_graph(model, Path(name), Precision.FP32, progress=progress)
        session = Session(Artifact(Path(name), artifact.manifest))
        reference = Engine(artifact.manifest, engine.tokenizer, session, truncate="right")
        report = measure(
            engine,
            reference,
            golden=golden,
            multiply_adds=graph.multiply_adds,
            documents=documents,
            progress=progress,
        )
        missed = problems(report, thresholds, golden)
        if missed:
            _refuse(missed, worst=_worst(engine, folder, graph, Path(name), full))
    return report, golden_entries(engine)


def _refuse(missed: list[str], *, worst: str) -> None:
    if missed:
        layer = f" The worst layer is {worst}." if worst else ""
        raise FidelityError(
            f"The compiled model's vectors are not the model's own: {'; '.join(missed)}.{layer}"
        )


def _worst(engine: Engine, folder: Path, graph: Graph, reference: Path, full: Graph) -> str:
    tokenizer = engine.tokenizer
    specials = len(tokenizer.prefix) + len(tokenizer.suffix)
    longest = min(LAYER_TOKENS, engine.manifest.max_tokens - specials)
    sequences = [
        [*tokenizer.prefix, *tokenizer.encode(text)[:longest], *tokenizer.suffix]
        for text in list(texts().values())[-LAYER_TEXTS:]
    ]
    return worst_layer(
        folder / GRAPH_FILE,
        reference / GRAPH_FILE,
        marks={label: (value, full.marks[label]) for label, value in graph.marks.items()},
        sequences=sequences,
    )
