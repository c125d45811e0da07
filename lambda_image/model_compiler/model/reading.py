"""Decides from which files of a folder its model is read: weights, a table, or a ready export."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from embedder.core.artifact import TASKS
from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.adapter import MERGE
from model_compiler.graph.builder import Precision
from model_compiler.model.base import CompilerModel
from model_compiler.model.classifier import SETFIT_FILES, read_classifier
from model_compiler.model.compiled import CompiledModel
from model_compiler.model.cross_encoder import read_cross_encoder, read_pairs
from model_compiler.model.exports import ExportChoice, ExportPrecision, choose, read_export
from model_compiler.model.folder import MODULES_FILE, ModelFolder, read_model_folder
from model_compiler.model.sparse import read_sparse_folder
from model_compiler.model.static import read_static_folder


@dataclass(frozen=True, slots=True)
class Reading:
    """From which files a model is read, and what reads it."""

    #: `weights`, `static` or `export`; None if the model has neither weights nor an export.
    path: str | None
    read: Callable[[], CompilerModel]
    #: The ready export that is imported, or of which the initializers are the weights.
    export: ExportChoice | None = None
    #: Why an export is imported although there are weights, or initializers that may be weights.
    reason: str | None = None


#: What reads a model that gives scores, by its task.
SCORING: dict[str | None, Callable[..., CompiledModel]] = {
    "classify": read_classifier,
    "rerank": read_cross_encoder,
}


def reading_of(
    folder: ModelFolder, precision: Precision | None, task: str | None = None
) -> Reading:
    """Return how a folder's model is read; weights are preferred to an export.

    `task` is that of a model that gives scores; None for what the folder says.
    In a folder that is not complete, an export's initializers may turn out not to be the weights.
    """
    chosen = precision or Precision.INT8
    task = task or folder.scoring_task
    if task or folder.is_sparse:
        return Reading("weights", partial(SCORING.get(task, read_sparse_folder), folder, chosen))
    unknown = folder.why_not_compiled
    if folder.has_weights and unknown is None:
        if folder.is_static:
            return Reading("static", partial(read_static_folder, folder, chosen))
        return Reading("weights", partial(read_model_folder, folder, chosen))
    reason = unknown if folder.has_weights else None
    if unknown is None and MODULES_FILE in folder.files and not folder.adapters:
        full = choose(folder.files, None)
        if full and full.precision is ExportPrecision.FULL:
            read = partial(read_model_folder, folder, chosen, export=folder.path / full.name)
            reason = _why_not_weights(folder, read) if folder.complete else None
            if reason is None:
                return Reading("weights", read, full)
    export = choose(folder.files, precision)
    if export and folder.adapters:
        raise UnsupportedModelError(
            f"The model has an adapter ({folder.adapters[0].relative_to(folder.path)}), which the "
            f"compiler merges into safetensors and not into an export ({export.name}). {MERGE}"
        )
    if export is None:
        return Reading(None, lambda: _without_export(folder, chosen), reason=reason)
    return Reading("export", partial(read_export, folder, export), export, reason)


def reading_notes(folder: ModelFolder, model: CompilerModel, task: str | None) -> Iterator[str]:
    """Return what was read from a folder that may be meant otherwise.

    That is the task, if none was chosen and the model has several labels or SetFit's head, and why
    a classifier takes no pairs.
    """
    labels = len(model.scoring.labels) if model.scoring else 0
    has = f"{labels} labels" if labels > 1 else ""
    if model.task == "embed" and any(map(folder.has, SETFIT_FILES)):
        has = "a classifier's head of SetFit"
    if has and not task:
        other = "rerank" if model.task == "classify" else "classify"
        yield (
            f"It has {has} and was read as {TASKS[model.task]}: --task {other}, or task under "
            f"[model], reads it as {TASKS[other]}."
        )
    if model.task == "classify" and isinstance(model, CompiledModel):
        try:
            read_pairs(model.encoder, model.tokenizer, model.architecture)
        except UnsupportedModelError as error:
            yield f"It takes single texts and no pairs. {error}"


def _without_export(folder: ModelFolder, precision: Precision) -> CompilerModel:
    """Read a folder with neither weights that can be compiled nor an export: an error says it."""
    return (read_static_folder if folder.is_static else read_model_folder)(folder, precision)


def _why_not_weights(folder: ModelFolder, read: Callable[[], CompiledModel]) -> str | None:
    """Return why an export's initializers are not a model's weights; None if they are."""
    try:
        read().check(values=False)
    except (SourceError, UnsupportedModelError) as error:
        return folder.relative(error)
    return None
