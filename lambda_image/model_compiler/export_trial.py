"""Runs a ready export as the embedder will, and refuses one whose vectors are too far off."""

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedder.artifact import Artifact, parse_manifest
from embedder.engine import Engine
from embedder.errors import EmbedderError
from embedder.session import Session
from embedder.tokenizers import load
from model_compiler.artifact_writer import manifest_bytes
from model_compiler.errors import FidelityError, SourceError
from model_compiler.export_file import write_export
from model_compiler.export_folder import ExportFolder
from model_compiler.export_graph import multiply_adds
from model_compiler.fidelity import (
    DIGITS,
    DOCUMENTS,
    Fidelity,
    Thresholds,
    batch_invariance,
    batch_problems,
    golden_entries,
    measure,
    problems,
)

__all__ = ["Trial", "try_export"]


@dataclass(frozen=True, slots=True)
class Trial:
    """What an export was seen to do."""

    #: Of CPU time, on this machine: how long ONNX Runtime took to start a session.
    start_seconds: float
    #: Of a text alone to the same text in a batch.
    batch_cosine_min: float
    #: The comparison with the full-precision export; none where there is none, or none was made.
    fidelity: Fidelity | None
    golden: list[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """Return what the manifest says; not the time, which is another on each machine."""
        if self.fidelity:
            return self.fidelity.as_json()
        return {"batch_cosine_min": round(self.batch_cosine_min, DIGITS)}


def try_export(
    folder: Path,
    content: Mapping[str, Any],
    *,
    name: str,
    reference: ExportFolder | None,
    thresholds: Thresholds | None,
    documents: int = DOCUMENTS,
    progress: bool = False,
) -> Trial:
    """Run an export whose manifest is not written yet, and judge it.

    Args:
        folder: the artifact's files.
        content: what its manifest will say.
        name: the export's path in the model's folder.
        reference: the full-precision export of the same model.
        thresholds: what it must reach; None to take it whatever its vectors are.
        documents: among how many docstrings the nearest neighbors are compared, at most.
        progress: whether to draw progress bars.

    Raises:
        SourceError: if ONNX Runtime cannot run it, or it gives something else than embeddings.
        FidelityError: if it misses a threshold.
    """
    try:
        artifact = Artifact(folder, parse_manifest(manifest_bytes(content), where=str(folder)))
        began = time.process_time()
        session = Session(artifact)
        start_seconds = time.process_time() - began
        _check_shape(session, name, artifact.manifest.dimension)
        tokenizer = load(artifact.manifest.tokenizer, folder)
        engine = Engine(artifact.manifest, tokenizer, session, truncate="right")
        fidelity = None
        if reference and thresholds:
            fidelity = _compared(engine, reference, folder, documents=documents, progress=progress)
            batch = fidelity.batch_cosine_min
            missed = problems(fidelity, thresholds, ())
        else:
            batch = batch_invariance(engine, progress=progress)
            missed = batch_problems(batch, thresholds) if thresholds else []
        if missed:
            raise FidelityError(_refusal(name, missed, reference))
        return Trial(start_seconds, batch, fidelity, golden_entries(engine))
    except EmbedderError as error:
        # The embedder's own errors show nothing of its inside; whoever compiles wants to see it.
        cause = f" {error.__cause__}" if error.__cause__ else ""
        raise SourceError(f"The export {name} cannot be run: {error}{cause}") from error


def _compared(
    engine: Engine, reference: ExportFolder, folder: Path, *, documents: int, progress: bool
) -> Fidelity:
    """Compare an export with the full-precision one, which is written beside it for the time."""
    manifest = engine.manifest
    if reference.dimension != manifest.dimension:
        raise SourceError(
            f"{reference.path} gives vectors of {reference.dimension} components, the export that "
            f"is to be compared with it {manifest.dimension}."
        )
    with tempfile.TemporaryDirectory(prefix="reference-", dir=folder) as name:
        export = write_export(reference, Path(name))
        graph = manifest.graph._replace(inputs=tuple(export.inputs), output=export.output)
        session = Session(Artifact(name, manifest._replace(graph=graph)))
        full = Engine(manifest, engine.tokenizer, session, truncate="right")
        return measure(
            engine,
            full,
            multiply_adds=multiply_adds(reference.graph),
            documents=documents,
            progress=progress,
        )


def _check_shape(session: Session, name: str, dimension: int) -> None:
    """Check what comes out of a batch: what a graph declares need not be so."""
    ids = np.zeros((2, 3), np.int64)
    try:
        shape = session.run(ids, np.ones_like(ids)).shape
    except Exception as error:  # ONNX Runtime's classes have no common base.
        raise SourceError(
            f"The export {name} cannot be run on a batch of two texts: {error}"
        ) from error
    if shape != (2, dimension):
        raise SourceError(
            f"The export {name} gives an array of shape {list(shape)} for two texts; it must be "
            f"{[2, dimension]}: one vector for each."
        )


def _refusal(name: str, missed: list[str], reference: ExportFolder | None) -> str:
    if reference:
        remedy = f"Leave --precision out to take {reference.path.name}, which is in full precision,"
    else:
        remedy = "Export the model in full precision, or with scales that do not depend on a batch,"
    return (
        f"The vectors of {name} are too far from the model's own: {'; '.join(missed)}. {remedy} "
        "or add --unmeasured to take this one as it is."
    )
