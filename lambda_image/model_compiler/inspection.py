"""The command `inspect`: whether a model compiles and by which path, without compiling it.

It reads the files that describe the model. In a folder it also reads the weights, or the graph of a
ready export; of a hub's repository it only knows their names.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import PurePosixPath
from typing import Any, TypeVar

from model_compiler.artifact.manifest import Choices, model_settings
from model_compiler.errors import CompilerError, printable
from model_compiler.files.config import CONVERSION, missing
from model_compiler.graph.builder import Precision
from model_compiler.model.base import Model
from model_compiler.model.cross_encoder import read_cross_encoder
from model_compiler.model.exports import (
    choose,
    files_of,
    find_weights,
    has_weights,
    read_export,
    read_weights,
    why_not_compiled,
)
from model_compiler.model.folder import (
    check_kind,
    is_cross_encoder,
    is_sparse,
    read_model_folder,
)
from model_compiler.model.sparse import read_sparse_folder
from model_compiler.model.static import is_static, read_static_folder
from model_compiler.source import Source
from model_compiler.tokenizer import tables

Result = TypeVar("Result")

#: The files that a model needs besides its weights or its export. An export with the output
#: sentence_embedding can do without modules.json.
NEEDED_BY_PATH: Mapping[str, tuple[str, ...]] = {
    "export": ("config.json", "tokenizer.json"),
    "static": ("tokenizer.json",),
}
NEEDED_WITHOUT_EXPORT = ("config.json", "tokenizer.json", "modules.json")
#: Names of pickles, which can run any code when they are opened.
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


@dataclass(slots=True)
class Inspection:
    """What is known of a model before it is compiled."""

    model: str
    revision: str | None
    license: str | None
    #: `weights`, `static` or `export`; None if the model has neither weights nor an export.
    path: str | None = None
    #: The ready export that is used, by its path.
    export: str | None = None
    #: Why an export is used although there are weights.
    instead_of_weights: str | None = None
    #: The architecture, dimensions, limit, prompts and tokenizer; empty if they are not known.
    settings: dict[str, Any] = field(default_factory=dict)
    #: Why the model does not compile; empty if it does.
    problems: list[str] = field(default_factory=list)
    #: What the user should know about a model that compiles.
    notes: list[str] = field(default_factory=list)

    @property
    def compiles(self) -> bool:
        """Whether nothing was found that would stop the compiler."""
        return not self.problems

    def attempt(self, step: Callable[[], Result]) -> Result | None:
        """Return the result of a step; add its error to the problems."""
        try:
            return step()
        except CompilerError as error:
            self.problems.append(str(error))
            return None


def inspect_model(source: Source, precision: Precision | None = None) -> Inspection:
    """Inspect a model that `find_source` has found."""
    found = Inspection(source.name, source.revision, source.license)
    found.attempt(lambda: check_kind(source.folder))
    if not found.compiles:
        return found
    files = files_of(source.folder) if source.files is None else source.files
    model: Model | None
    if is_cross_encoder(source.folder) or is_sparse(source.folder):
        found.path = "weights"
        read = read_sparse_folder if is_sparse(source.folder) else read_cross_encoder
        model = found.attempt(lambda: read(source.folder, precision or Precision.INT8))
    else:
        model = _read(source, files, precision, found)
    if model and found.compiles:
        found.attempt(lambda: _describe(model, source, found))
        if source.files is None:
            found.attempt(model.check)
    if model is None:
        found.problems += map(missing, _missing(files, found))
    if source.newest:
        found.notes.append(f"This is the newest commit: --revision {source.revision} pins it.")
    if source.entry and source.entry.license.must_be_accepted:
        found.notes.append(f"You must accept its terms: {source.entry.license.url}")
    return found


def as_json(found: Inspection) -> str:
    """Return a JSON object; a missing value is null."""
    value = {"compiles": found.compiles, **asdict(found)}
    return json.dumps(value, indent=2) + "\n"


def as_text(found: Inspection) -> str:
    """Return lines for a reader."""
    return "\n".join(map(printable, _lines(found))) + "\n"


def _lines(found: Inspection) -> Iterator[str]:
    if not found.compiles:
        yield f"{found.model} does not compile:"
        yield from (f"- {problem}" for problem in found.problems)
    else:
        way = {"static": "from its table of vectors", "export": f"from the export {found.export}"}
        yield f"{found.model} compiles {way.get(found.path or '', 'from its weights')}."
    if found.instead_of_weights:
        yield f"- instead of its weights: {found.instead_of_weights}"
    for name, value in found.settings.items():
        yield f"- {name.replace('_', ' ')}: {_shown(value)}"
    for name in ("license", "revision"):
        if value := getattr(found, name):
            yield f"- {name}: {value}"
    yield from (f"note: {note}" for note in found.notes)


def _shown(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _read(
    source: Source, files: Collection[str], precision: Precision | None, found: Inspection
) -> Model | None:
    """Read the model by the path that the compiler takes; None if that is not possible."""
    folder = source.folder
    static = found.attempt(lambda: has_weights(folder, files) and is_static(folder))
    if static is not False:  # None: modules.json cannot be read, whatever the rest is.
        return _read_static(source, precision or Precision.INT8, found) if static else None
    reason = None
    if not has_weights(folder, files):
        if name := find_weights(folder, files):
            compiled = _read_initializers(source, name, precision or Precision.INT8, found)
            if isinstance(compiled, Model):
                return compiled
            reason = compiled
    elif (reason := why_not_compiled(folder)) is None:
        found.path = "weights"
        return found.attempt(lambda: read_model_folder(folder, precision or Precision.INT8))
    choice = found.attempt(lambda: choose(files, precision))
    if choice is None:
        found.problems.append(reason or _no_weights(files))
        return None
    found.path, found.export, found.instead_of_weights = "export", choice.name, reason
    if source.files is None:
        return found.attempt(lambda: read_export(folder, choice))
    found.notes.append(f"{choice.name} itself was not downloaded and is checked by the compile.")
    return None


def _read_initializers(
    source: Source, name: str, precision: Precision, found: Inspection
) -> Model | str | None:
    """Read a model with its weights only in an export, or the reason why they do not fit.

    None if the rest of the model cannot be read.
    """
    note = f"There are no weights but those in {name}, which are compiled."
    compiled: Model | str | None
    if source.files is None:
        compiled = read_weights(source.folder, name, precision)
    else:
        note += " The compile checks that they fit; if not, it uses the export as it is."
        read = partial(read_model_folder, source.folder, precision, export=source.folder / name)
        compiled = found.attempt(read)
    if isinstance(compiled, Model):
        found.path = "weights"
        found.notes.append(note)
    return compiled


def _read_static(source: Source, precision: Precision, found: Inspection) -> Model | None:
    found.path = "static"
    if source.files is None:
        return found.attempt(lambda: read_static_folder(source.folder, precision))
    found.notes.append("Its table was not downloaded and is checked by the compile.")
    return None


def _describe(model: Model, source: Source, found: Inspection) -> None:
    built = tables.build(model.tokenizer.data, embedding_rows=model.vocabulary_size)
    settings = model_settings(model, source.entry, Choices())
    tables.check_room(built, model.max_tokens, settings["prompts"], model.scoring)
    found.settings = {
        **({"task": model.task} if model.task != "embed" else {}),
        "architecture": model.family,
        **settings,
        **({"labels": list(model.scoring.labels)} if model.scoring else {}),
        "tokenizer": built.kind,
    }
    if built.reason:
        found.notes.append(f"The embedder will use the `tokenizers` library: {built.reason}.")
    if not model.normalized:
        found.notes.append("The model has no Normalize. The embedder's vectors have length 1.")


def _no_weights(files: Collection[str]) -> str:
    pickles = sorted(
        name for name in files if any(PurePosixPath(name).match(kind) for kind in PICKLES)
    )
    if pickles:
        return (
            f"The weights are pickles ({', '.join(pickles[:3])}), which can run any code and are "
            f"never opened. {CONVERSION}"
        )
    return "It has no weights: neither *.safetensors nor an ONNX export as model.onnx."


def _missing(files: Collection[str], found: Inspection) -> list[str]:
    """Return the needed files that no folder of the model has and no problem names."""
    names = {PurePosixPath(name).name for name in files}
    stated = " ".join(found.problems)
    needed = NEEDED_BY_PATH.get(found.path or "", NEEDED_WITHOUT_EXPORT)
    return [name for name in needed if name not in names and name not in stated]
