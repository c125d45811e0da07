"""The command `inspect`: whether a model compiles and by which path, without compiling it.

It reads the files that describe the model. In a folder it also reads the weights, or the graph of a
ready export; of a hub's repository it only knows their names.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeVar

from model_compiler.artifact.manifest import Choices, model_settings
from model_compiler.errors import CompilerError, printable
from model_compiler.files.config import CONVERSION, missing
from model_compiler.graph.builder import Precision
from model_compiler.model.base import CompilerModel
from model_compiler.model.folder import ModelFolder
from model_compiler.model.reading import reading_notes, reading_of
from model_compiler.source import LocalModel
from model_compiler.tokenizer import tables

Result = TypeVar("Result")

#: The files that a model needs besides its weights or its export. An export with the output
#: sentence_embedding can do without modules.json, and what reads weights names it if it is needed.
NEEDED_BY_PATH: Mapping[str, tuple[str, ...]] = {
    "export": ("config.json", "tokenizer.json"),
    "static": ("tokenizer.json",),
    "weights": ("config.json", "tokenizer.json"),
}
NEEDED_WITHOUT_EXPORT = ("config.json", "tokenizer.json", "modules.json")
#: Names of pickles, which can run any code when they are opened.
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


@dataclass(slots=True)
class Inspection:
    """Facts about a model before it is compiled."""

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


def inspect_model(
    source: LocalModel, precision: Precision | None = None, task: str | None = None
) -> Inspection:
    """Inspect a model that `find_source` has found; see `CompileOptions` for the choices."""
    found = Inspection(source.name, source.revision, source.license)
    found.attempt(source.folder.check_adapters)
    if not found.compiles:
        return found
    task = task or source.task
    model = _read(source.folder, precision, task, found)
    if model and found.compiles:
        found.notes += reading_notes(source.folder, model, task)
        found.attempt(lambda: _describe(model, source, found))
        if source.folder.complete:
            found.attempt(model.check)
    if model is None:
        found.problems += map(missing, _missing(source.folder.files, found))
    if source.newest:
        found.notes.append(f"This is the newest commit: --revision {source.revision} pins it.")
    if source.entry and source.entry.license.must_be_accepted:
        found.notes.append(f"You must accept its terms: {source.entry.license.url}")
    return found


def as_json(found: Inspection) -> str:
    """Return a JSON object; a missing value is null."""
    return json.dumps({"compiles": found.compiles, **asdict(found)}, indent=2) + "\n"


def as_text(found: Inspection) -> str:
    """Return lines for a reader."""
    return "\n".join(map(printable, _lines(found))) + "\n"


def _lines(found: Inspection) -> Iterator[str]:
    if not found.compiles:
        yield f"{found.model} does not compile:"
        yield from (f"- {problem}" for problem in found.problems)
    else:
        origins = {
            "static": "from its table of vectors",
            "export": f"from the export {found.export}",
        }
        yield f"{found.model} compiles {origins.get(found.path or '', 'from its weights')}."
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
    folder: ModelFolder, precision: Precision | None, task: str | None, found: Inspection
) -> CompilerModel | None:
    """Read the model from what the compiler takes; None if that is not possible."""
    reading = found.attempt(lambda: reading_of(folder, precision, task))
    if reading is None:  # modules.json cannot be read, whatever the rest is
        return None
    export, found.path = reading.export, reading.path
    if reading.path is None:
        found.problems.append(reading.reason or _no_weights(folder.files))
        return None
    if export and reading.path == "weights":
        note = f"There are no weights but those in {export.name}, which are compiled."
        if not folder.complete:
            note += " The compile checks that they fit; if not, it uses the export as it is."
        found.notes.append(note)
    elif export:
        found.export, found.instead_of_weights = export.name, reading.reason
    if folder.complete or reading.path == "weights":
        return found.attempt(reading.read)
    missing = f"{export.name} itself" if export else "Its table"
    found.notes.append(f"{missing} was not downloaded and is checked by the compile.")
    return None


def _describe(model: CompilerModel, source: LocalModel, found: Inspection) -> None:
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
        name for name in files if any(PurePosixPath(name).match(pattern) for pattern in PICKLES)
    )
    if pickles:
        return (
            f"The weights are pickles ({', '.join(pickles[:3])}), which can run any code and are "
            f"never opened. Convert it with: {CONVERSION}"
        )
    return "It has no weights: neither *.safetensors nor an ONNX export as model.onnx."


def _missing(files: Collection[str], found: Inspection) -> list[str]:
    """Return the needed files that no folder of the model has and no problem names."""
    names = {PurePosixPath(name).name for name in files}
    stated = " ".join(found.problems)
    needed = NEEDED_BY_PATH.get(found.path or "", NEEDED_WITHOUT_EXPORT)
    return [name for name in needed if name not in names and name not in stated]
