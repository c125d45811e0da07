"""Decides from which files of a folder its model is read: weights, a table, or a ready export."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.adapter import MERGE
from model_compiler.graph.builder import Precision
from model_compiler.model.base import Model
from model_compiler.model.compiled import CompiledModel
from model_compiler.model.cross_encoder import read_cross_encoder
from model_compiler.model.exports import (
    Choice,
    Kind,
    choose,
    has_weights,
    read_export,
    relative,
    why_not_compiled,
)
from model_compiler.model.folder import adapters_of, is_cross_encoder, is_sparse, read_model_folder
from model_compiler.model.sparse import read_sparse_folder
from model_compiler.model.static import is_static, read_static_folder


@dataclass(frozen=True, slots=True)
class Reading:
    """From which files a model is read, and what reads it."""

    #: `weights`, `static` or `export`; None if the model has neither weights nor an export.
    path: str | None
    read: Callable[[], Model]
    #: The ready export that is imported, or of which the initializers are the weights.
    export: Choice | None = None
    #: Why an export is imported although there are weights, or what may be weights.
    reason: str | None = None


def reading_of(
    folder: Path, files: Collection[str], precision: Precision | None, *, downloaded: bool = True
) -> Reading:
    """Return how a folder's model is read; weights are preferred to an export.

    `files` are the paths of all its files. If not all of them are `downloaded`, an export's
    initializers may turn out not to be the weights.
    """
    chosen = precision or Precision.INT8
    for is_other, read_other in (
        (is_cross_encoder, read_cross_encoder),
        (is_sparse, read_sparse_folder),
    ):
        if is_other(folder):
            return Reading("weights", partial(read_other, folder, chosen))
    there, unknown = has_weights(folder, files), why_not_compiled(folder)
    if there and unknown is None:
        if is_static(folder):
            return Reading("static", partial(read_static_folder, folder, chosen))
        return Reading("weights", partial(read_model_folder, folder, chosen))
    reason = unknown if there else None
    if unknown is None and "modules.json" in files and not adapters_of(folder):
        full = choose(files, None)
        if full and full.kind is Kind.FULL:
            read = partial(read_model_folder, folder, chosen, export=folder / full.name)
            reason = _why_not_weights(folder, read) if downloaded else None
            if reason is None:
                return Reading("weights", read, full)
    export = choose(files, precision)
    if export and (adapters := adapters_of(folder)):
        raise UnsupportedModelError(
            f"The model has an adapter ({adapters[0].relative_to(folder)}), which the compiler "
            f"merges into safetensors and not into an export ({export.name}). {MERGE}"
        )
    if export is None:
        return Reading(None, lambda: _without_export(folder, chosen), reason=reason)
    return Reading("export", partial(read_export, folder, export), export, reason)


def _without_export(folder: Path, precision: Precision) -> Model:
    """Read a folder with neither weights that can be compiled nor an export: an error says it."""
    return (read_static_folder if is_static(folder) else read_model_folder)(folder, precision)


def _why_not_weights(folder: Path, read: Callable[[], CompiledModel]) -> str | None:
    """Return why an export's initializers are not a model's weights; None if they are."""
    try:
        read().check(values=False)
    except (SourceError, UnsupportedModelError) as error:
        return relative(error, folder)
    return None
