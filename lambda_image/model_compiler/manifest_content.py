"""What an artifact's manifest says of a model, from what was read and what was written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from model_compiler import identity
from model_compiler.artifact_writer import FORMAT_VERSION, describe_files
from model_compiler.catalogue import CatalogueEntry, recognize
from model_compiler.errors import SourceError
from model_compiler.graph_file import GRAPH_FILE, Graph
from model_compiler.model_folder import Prompts
from model_compiler.source import Source
from model_compiler.tokenizer_file import TokenizerFile
from model_compiler.tokenizer_tables import TokenizerTables

__all__ = ["Choices", "Described", "Written", "manifest_content"]


class Described(Protocol):
    """A model as its folder describes it."""

    @property
    def family(self) -> str:
        """Its architecture."""
        ...

    @property
    def dimension(self) -> int:
        """The width of its embedding."""
        ...

    @property
    def vocabulary_size(self) -> int:
        """How many rows its embedding table has."""
        ...

    @property
    def max_tokens(self) -> int:
        """Its limit, special tokens included."""
        ...

    @property
    def normalized(self) -> bool:
        """Whether the model's own vectors have length 1."""
        ...

    @property
    def prompts(self) -> Prompts:
        """Its prompts."""
        ...

    @property
    def tokenizer(self) -> TokenizerFile:
        """Its tokenizer."""
        ...


@dataclass(frozen=True, slots=True)
class Choices:
    """What whoever compiles may choose beside the model."""

    #: The sizes that callers may ask for; empty for what the catalogue says, or the full one alone.
    dimensions: tuple[int, ...] = ()
    #: The prompt of texts that come without one; none for what the model or its card says.
    default_prompt: str | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A graph in the artifact's folder, and how it is to be run."""

    graph: Graph
    precision: str
    inputs: Sequence[str]
    output: str
    #: `none`, or `extended` where ONNX Runtime is to optimise the graph at start-up.
    optimization: str


def manifest_content(
    source: Source,
    model: Described,
    choices: Choices,
    *,
    written: Written,
    tables: TokenizerTables,
    folder: Path,
) -> dict[str, Any]:
    """Return the manifest of the artifact in `folder`, without its checksum and its report.

    Raises:
        SourceError: if a choice is not one that the model has.
    """
    settings = _settings(model, source.entry, choices)
    return {
        "format_version": FORMAT_VERSION,
        "model": {
            "name": source.name,
            "revision": source.revision or f"sha256:{written.graph.source_digest.hex()[:12]}",
            "architecture": model.family,
            "licence": source.licence,
        },
        "vector_space": _vector_space(model, settings, written),
        "precision": written.precision,
        **settings,
        "tokenizer": {"kind": tables.kind, "file": tables.file, "reason": tables.reason},
        "graph": {
            "file": GRAPH_FILE,
            "inputs": list(written.inputs),
            "output": written.output,
            "optimization": written.optimization,
        },
        "fidelity": {},
        "golden": [],
        "files": describe_files(folder),
    }


def _vector_space(model: Described, settings: Mapping[str, Any], written: Written) -> str:
    # Which sizes may be asked for changes no vector; the size itself is named in every answer.
    decisive = {key: value for key, value in settings.items() if key != "dimensions"}
    source = identity.source_name(written.graph.source_digest)
    # By neither the folder nor what was asked for: the same model from elsewhere is the same space.
    known = recognize(family=model.family, source=source, prompts=model.prompts.texts)
    return identity.vector_space(
        label=known.short_name if known else model.family,
        source=source,
        precision=written.precision,
        graph=written.graph.digest,
        settings={**decisive, "tokenizer": model.tokenizer.data.decode("utf-8", "surrogatepass")},
    )


def _settings(model: Described, entry: CatalogueEntry | None, choices: Choices) -> dict[str, Any]:
    """Return what the manifest says of sizes, limits and prompts."""
    prompts = dict(model.prompts.texts)
    default = choices.default_prompt or model.prompts.default
    if entry:
        prompts = {**entry.prompts, **prompts}
        default = default or entry.default_prompt
    if default is not None and default not in prompts:
        raise SourceError(
            f"The default prompt {default!r} is not one of the model's prompts: "
            f"{', '.join(sorted(prompts)) or 'it has none'}."
        )
    known = entry.dimensions if entry else ()
    return {
        "dimensions": _dimensions(model.dimension, choices.dimensions or known),
        "max_tokens": model.max_tokens,
        "prompts": prompts,
        "default_prompt": default,
    }


def _dimensions(full: int, asked: Sequence[int]) -> list[int]:
    sizes = sorted({full, *asked}, reverse=True)
    if sizes[0] > full or sizes[-1] < 1:
        raise SourceError(
            f"The dimensions {', '.join(map(str, asked))} are not all between 1 and the model's "
            f"{full}."
        )
    return sizes
