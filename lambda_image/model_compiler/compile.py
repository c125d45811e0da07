"""The pipeline: source → model → tokenizer → graph → fidelity → artifact."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from embedder.core.artifact import MANIFEST_FILE
from embedder.core.fast_tokenizers import load
from model_compiler.artifact.manifest import (
    Choices,
    manifest_bytes,
    manifest_content,
    model_settings,
)
from model_compiler.artifact.writer import new_folder
from model_compiler.errors import PrecisionError, printable
from model_compiler.fidelity.acceptance import Acceptance, accept, with_more_float32
from model_compiler.fidelity.measure import DOCUMENTS, Thresholds
from model_compiler.graph.builder import Precision
from model_compiler.model.base import CompilerModel
from model_compiler.model.compiled import CompiledModel
from model_compiler.model.exports import ExportPrecision
from model_compiler.model.onnx_import import ImportedModel
from model_compiler.model.reading import reading_notes, reading_of
from model_compiler.source import LocalModel
from model_compiler.tokenizer import tables as tokenizer_tables
from model_compiler.tokenizer.tables import TokenizerTables, check_room

#: The families of which int8 was compared with full precision on a model's real weights.
VERIFIED = frozenset({"bert"})


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options of a compile."""

    #: None selects int8 for weights, and prefers full precision among ready exports.
    precision: Precision | None = None
    choices: Choices = field(default_factory=Choices)
    #: `classify` or `rerank`, of a model that gives scores; None for what the catalog or the
    #: folder says.
    task: str | None = None
    #: The values that the artifact must reach; None to write it without a comparison.
    thresholds: Thresholds | None = field(default_factory=Thresholds)
    #: Maximum number of documents for the comparison of nearest neighbors.
    documents: int = DOCUMENTS
    #: Whether to draw progress bars and print the report.
    progress: bool = True


def compile_model(source: LocalModel, output: Path, options: CompileOptions) -> dict[str, Any]:
    """Write a model's artifact to `output` and return its manifest.

    Weights are compiled, also those that only a ready ONNX export has. An export is imported as it
    is if the compiler does not know the architecture, or its initializers are not its weights.

    Raises:
        CompilerError: One of its subclasses; nothing was written.
    """
    model, provenance = _read(source, options)
    if source.base:
        _note(f"The adapter is merged into the weights of {source.base}.")
    if not model.normalized:
        _note(
            "The model has no Normalize. The embedder returns vectors of length 1: cosine "
            "similarities are unchanged, dot products and distances are not."
        )
    compiled = isinstance(model, CompiledModel) and model.precision is Precision.INT8
    if options.thresholds is None and compiled and model.family not in VERIFIED:
        _note(
            f"int8 of {model.family} is unverified on real weights, and without the fidelity "
            "report it is unverified on these."
        )
    with new_folder(output) as partial:
        tables = _write_tokenizer(source, model, partial, options)
        content = _compiled_to_precision(
            source, model, partial, options, tables=tables, provenance=provenance
        )
        (partial / MANIFEST_FILE).write_bytes(manifest_bytes(content))
    return content


def _compiled_to_precision(
    source: LocalModel,
    model: CompilerModel,
    folder: Path,
    options: CompileOptions,
    *,
    tables: TokenizerTables,
    provenance: dict[str, Any],
) -> dict[str, Any]:
    """Write the graph, and return the manifest with the report.

    If int8 is not accurate enough, the graph is written again, with more layers in float32.
    """
    graph = model.write(folder, progress=options.progress)
    content = manifest_content(
        source, model, options.choices, graph=graph, tables=tables, folder=folder
    )
    if not (options.thresholds or provenance):
        return content
    try:
        accepted = accept(
            model,
            graph,
            folder,
            content,
            golden=source.entry.golden if source.entry else (),
            thresholds=options.thresholds,
            documents=options.documents,
            progress=options.progress,
        )
    except PrecisionError as error:
        tokenizer = load(tables.kind, folder / tables.file)
        better = with_more_float32(model, graph, folder, tokenizer)
        if better is None:
            raise
        layers = sorted(better.float32_layers)
        _note(
            f"In {model.label}, {error.missed}. Of its {len(graph.layers)} layers, these are now "
            f"kept in float32, counted from 0: {', '.join(map(str, layers))}."
        )
    else:
        _report(accepted, graph.optimization, options)
        return {**content, "fidelity": provenance | accepted.report, "golden": accepted.golden}
    provenance = {**provenance, "float32_layers": layers}
    return _compiled_to_precision(
        source, better, folder, options, tables=tables, provenance=provenance
    )


def _read(source: LocalModel, options: CompileOptions) -> tuple[CompilerModel, dict[str, Any]]:
    """Read the model, and for an export the manifest's entries about its origin."""
    folder = source.folder
    folder.check_adapters()
    task = options.task or source.task
    reading = reading_of(folder, options.precision, task)
    export, reason = reading.export, reading.reason
    if export and reading.path == "weights":
        _note(f"There are no weights but those in {export.name}, which are compiled.")
    elif export:
        reason = reason or folder.why_not_compiled
        why = reason or "There are no weights."
        _note(f"{why} The ready export {export.name} is used instead.")
    model = reading.read()
    for note in reading_notes(folder, model, task):
        _note(note)
    if export is None or not isinstance(model, ImportedModel):
        return model, {}
    if options.precision is Precision.INT8 and export.precision is not ExportPrecision.EIGHT:
        _note(f"int8 was requested, but there is no 8-bit export: {export.name} is used.")
    if model.reference is None and (
        export.precision is not ExportPrecision.FULL or model.quantized
    ):
        _note(
            f"{export.name} is not in full precision, and there is no full-precision export to "
            "compare it with. Each text alone was compared with the same text in a batch; the "
            "distance from the model's own vectors is unknown."
        )
    return model, {
        "export": export.name,
        "instead_of_weights": reason,
        "reference": export.reference if model.reference and options.thresholds else None,
    }


def _write_tokenizer(
    source: LocalModel, model: CompilerModel, folder: Path, options: CompileOptions
) -> TokenizerTables:
    with tqdm(total=1, desc="tokenizer", unit=" file", disable=not options.progress) as bar:
        tables = tokenizer_tables.build(model.tokenizer.data, embedding_rows=model.vocabulary_size)
        (folder / tables.file).write_bytes(tables.data)
        prompts = model_settings(model, source.entry, options.choices)["prompts"]
        check_room(tables, model.max_tokens, prompts, model.scoring)
        bar.update()
    if model.tokenizer.dropped:
        names = ", ".join(model.tokenizer.dropped)
        _print(f"  treated as ordinary text, because the model has no row for it: {names}", options)
    if tables.reason:
        _print(f"  the embedder will use the `tokenizers` library: {tables.reason}", options)
    return tables


def _report(accepted: Acceptance, optimization: str, options: CompileOptions) -> None:
    if optimization != "none":
        _print(
            f"  The export is used as it is. Loading it took {accepted.start_seconds:.2f} s of CPU "
            "on this machine, and every cold start loads it. A model that is compiled from its "
            "weights loads much faster.",
            options,
        )
    for line in accepted.table.splitlines():
        _print(line, options)


def _note(text: str) -> None:
    """Print a note that is needed even if no report is wanted."""
    sys.stderr.write(f"note: {printable(text)}\n")


def _print(text: str, options: CompileOptions) -> None:
    if options.progress:
        print(printable(text))
