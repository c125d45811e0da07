"""The steps from a model to an artifact, in order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from model_compiler import identity, tokenizer_tables
from model_compiler.acceptance import accept
from model_compiler.artifact_writer import (
    FORMAT_VERSION,
    MANIFEST_FILE,
    describe_files,
    manifest_bytes,
    new_artifact,
)
from model_compiler.errors import SourceError
from model_compiler.fidelity import Thresholds, table
from model_compiler.graph_file import GRAPH_FILE, INPUTS, OUTPUT, Graph, write_graph
from model_compiler.model_folder import ModelFolder, read_model_folder
from model_compiler.quantization import Precision
from model_compiler.source import Source

__all__ = ["Options", "compile_model"]


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile."""

    precision: Precision = Precision.INT8
    #: The sizes that callers may ask for; empty for what the catalogue says, or the full one alone.
    dimensions: tuple[int, ...] = ()
    #: The prompt of texts that come without one; none for what the model or its card says.
    default_prompt: str | None = None
    #: What the artifact must reach to be written; none to write it unmeasured.
    thresholds: Thresholds | None = field(default_factory=Thresholds)
    #: Whether to draw progress bars and print the report.
    progress: bool = True


def compile_model(source: Source, output: Path, options: Options) -> dict[str, Any]:
    """Write a model's artifact to `output` and return its manifest.

    Raises:
        CompilerError: one of its kinds, with nothing written.
    """
    model = read_model_folder(source.folder)
    settings = _settings(model, source, options)
    with new_artifact(output) as partial:
        tables = tokenizer_tables.build(
            model.tokenizer.data, embedding_rows=model.architecture.vocabulary_size
        )
        (partial / tables.file).write_bytes(tables.data)
        graph = write_graph(model, partial, options.precision, progress=options.progress)
        content = {
            "format_version": FORMAT_VERSION,
            "model": {
                "name": source.name,
                "revision": source.revision or f"sha256:{graph.source_digest.hex()[:12]}",
                "architecture": model.architecture.name,
                "licence": source.licence,
            },
            "vector_space": _vector_space(model, source, graph, settings, options.precision),
            "precision": str(options.precision),
            **settings,
            "tokenizer": {"kind": tables.kind, "file": tables.file, "reason": tables.reason},
            "graph": {
                "file": GRAPH_FILE,
                "inputs": list(INPUTS),
                "output": OUTPUT,
                "optimization": "none",
            },
            "fidelity": {},
            "golden": [],
            "files": describe_files(partial),
        }
        if options.thresholds:
            report, golden = accept(
                model,
                partial,
                content,
                graph,
                golden=source.entry.golden if source.entry else (),
                thresholds=options.thresholds,
                progress=options.progress,
            )
            content |= {"fidelity": report.as_json(), "golden": golden}
            if options.progress:
                print(table(report))
        (partial / MANIFEST_FILE).write_bytes(manifest_bytes(content))
    return content


def _vector_space(
    model: ModelFolder,
    source: Source,
    graph: Graph,
    settings: Mapping[str, Any],
    precision: Precision,
) -> str:
    decisive = {key: value for key, value in settings.items() if key != "dimensions"}
    tokenizer = model.tokenizer.data.decode("utf-8", "surrogatepass")
    return identity.vector_space(
        label=source.entry.short_name if source.entry else source.name.rpartition("/")[2],
        source=graph.source_digest,
        precision=precision,
        graph=graph.digest,
        settings={**decisive, "tokenizer": tokenizer},
    )


def _settings(model: ModelFolder, source: Source, options: Options) -> dict[str, Any]:
    """Return what the manifest says of sizes, limits and prompts."""
    entry = source.entry
    prompts = dict(model.prompts.texts)
    default = options.default_prompt or model.prompts.default
    if entry:
        prompts = {**entry.prompts, **prompts}
        default = default or entry.default_prompt
    if default is not None and default not in prompts:
        raise SourceError(
            f"The default prompt {default!r} is not one of the model's prompts: "
            f"{', '.join(sorted(prompts)) or 'it has none'}."
        )
    return {
        "dimensions": _dimensions(model, source, options.dimensions),
        "max_tokens": model.max_tokens,
        "prompts": prompts,
        "default_prompt": default,
    }


def _dimensions(model: ModelFolder, source: Source, asked: Sequence[int]) -> list[int]:
    known = source.entry.dimensions if source.entry else ()
    sizes = sorted({model.dimension, *(asked or known)}, reverse=True)
    if sizes[0] > model.dimension or sizes[-1] < 1:
        raise SourceError(
            f"The dimensions {', '.join(map(str, asked))} are not all between 1 and the model's "
            f"{model.dimension}."
        )
    return sizes
