"""The content of an artifact's manifest."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from embedder.core.artifact import FORMAT_VERSION, MANIFEST_FILE, TASKS, manifest_checksum
from model_compiler.errors import SourceError
from model_compiler.files.folder import file_sha256
from model_compiler.model.base import CompilerModel, Graph
from model_compiler.source import LocalModel
from model_compiler.source.catalog import CatalogEntry, recognize
from model_compiler.tokenizer.tables import TokenizerTables

#: Hexadecimal digits of each hash in the name of a vector space: 48 bits.
DIGITS = 12


@dataclass(frozen=True, slots=True)
class Choices:
    """Settings that the user may choose."""

    #: The dimensions that callers may request; empty for the catalog's, or the full one alone.
    dimensions: tuple[int, ...] = ()
    #: The prompt of texts that name none; None for the default of the model or its card.
    default_prompt: str | None = None


def manifest_content(
    source: LocalModel,
    model: CompilerModel,
    choices: Choices,
    *,
    graph: Graph,
    tables: TokenizerTables,
    folder: Path,
) -> dict[str, Any]:
    """Return the manifest of the artifact in `folder`, without its checksum and its report."""
    settings = model_settings(model, source.entry, choices)
    return {
        "format_version": FORMAT_VERSION,
        "model": {
            "name": source.name,
            "revision": source.revision or f"sha256:{graph.source_digest.hex()[:12]}",
            "architecture": model.family,
            "license": source.license,
        },
        "task": model.task,
        "vector_space": _vector_space(model, settings, graph),
        "precision": graph.precision,
        **settings,
        "max_characters": model.max_characters,
        "scoring": model.scoring and model.scoring._asdict(),
        "tokenizer": {"kind": tables.kind, "file": tables.file, "reason": tables.reason},
        "graph": {
            "runtime": graph.runtime,
            "file": graph.file,
            "inputs": list(graph.inputs),
            "output": graph.output,
            "optimization": graph.optimization,
            **({"operator_file": graph.operator_file} if graph.operator_file else {}),
        },
        "fidelity": {},
        "golden": [],
        "files": {
            path.name: {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
            for path in sorted(folder.iterdir())
            if path.name != MANIFEST_FILE
        },
    }


def manifest_bytes(content: Mapping[str, Any]) -> bytes:
    """Return a manifest with its checksum, as the bytes of `manifest.json`."""
    return orjson.dumps(
        {**content, "checksum": manifest_checksum(content)},
        option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
    )


def _vector_space(model: CompilerModel, settings: Mapping[str, Any], graph: Graph) -> str:
    """Name the space of full-size vectors, or of scores, from the content of the artifact alone.

    Two artifacts have the same name if and only if both return the same vector for the same text,
    or the same score for the same pair. So it depends on values and not on the model's location, on
    how its tensors are sharded or stored, on the truncation that its tokenizer was saved with, or
    on the names of the graph's nodes.
    """
    # The list of available dimensions changes no vector; each response names its own dimensions.
    decisive = {key: value for key, value in settings.items() if key != "dimensions"}
    if model.max_characters:
        decisive["max_characters"] = model.max_characters
    if model.scoring:
        decisive["scoring"] = model.scoring._asdict()
    decisive["tokenizer"] = model.tokenizer.data.decode("utf-8", "surrogatepass")
    source = hashlib.sha256(graph.source_digest).hexdigest()[:DIGITS]
    # Not by the folder or the requested name: the same model from another place is the same space.
    entry = recognize(family=model.family, source=source, prompts=model.prompts.texts)
    label = entry.short_name if entry else model.family
    fingerprint = hashlib.sha256(graph.digest)
    fingerprint.update(json.dumps(decisive, ensure_ascii=False, sort_keys=True).encode())
    return f"{label}@{source}/{graph.precision}/{fingerprint.hexdigest()[:DIGITS]}"


def model_settings(
    model: CompilerModel, entry: CatalogEntry | None, choices: Choices
) -> dict[str, Any]:
    """Return the manifest's dimensions, limit and prompts, with what the user chose."""
    if model.scoring:
        if choices != Choices():
            raise SourceError(
                f"{TASKS[model.task].capitalize()} gives scores: it has no dimensions and no "
                f"default prompt to choose; found dimensions {list(choices.dimensions)} and the "
                f"prompt {choices.default_prompt}."
            )
        return {
            "dimensions": [],
            "max_tokens": model.max_tokens,
            "prompts": {},
            "default_prompt": None,
        }
    if model.task == "sparse" and choices.dimensions:
        raise SourceError(
            "A sparse encoder has a weight for each token of its vocabulary and no other "
            f"dimensions to choose; found dimensions {list(choices.dimensions)}."
        )
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
    requested = choices.dimensions or (entry.dimensions if entry else ())
    return {
        "dimensions": _dimensions(model.dimensions, requested),
        "max_tokens": model.max_tokens,
        "prompts": prompts,
        "default_prompt": default,
    }


def _dimensions(full: int, asked: Sequence[int]) -> list[int]:
    dimensions = sorted({full, *asked}, reverse=True)
    if dimensions[0] > full or dimensions[-1] < 1:
        raise SourceError(
            f"The dimensions {', '.join(map(str, asked))} are not all between 1 and the model's "
            f"{full}."
        )
    return dimensions
