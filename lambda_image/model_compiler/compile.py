"""The steps from a model to an artifact, in order."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from embedder.tokenizers import Tokenizer, load
from model_compiler import tokenizer_tables
from model_compiler.acceptance import accept
from model_compiler.artifact_writer import MANIFEST_FILE, manifest_bytes, new_artifact
from model_compiler.errors import SourceError
from model_compiler.export_file import write_export
from model_compiler.export_folder import (
    ExportFolder,
    find_export,
    read_export_folder,
    why_not_compiled,
)
from model_compiler.export_names import Choice, Kind
from model_compiler.export_trial import try_export
from model_compiler.fidelity import DOCUMENTS, Thresholds, table
from model_compiler.graph_file import INPUTS, OUTPUT, write_graph
from model_compiler.manifest_content import Choices, Described, Written, manifest_content
from model_compiler.model_folder import read_model_folder
from model_compiler.quantization import Precision
from model_compiler.source import Source
from model_compiler.tokenizer_tables import TokenizerTables

__all__ = ["Options", "compile_model"]


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile."""

    #: None for int8 where weights are compiled, and full precision where there is a ready export.
    precision: Precision | None = None
    choices: Choices = field(default_factory=Choices)
    #: What the artifact must reach to be written; none to write it unmeasured.
    thresholds: Thresholds | None = field(default_factory=Thresholds)
    #: Among how many docstrings the nearest neighbors are compared, at most.
    documents: int = DOCUMENTS
    #: Whether to draw progress bars and print the report.
    progress: bool = True


def compile_model(source: Source, output: Path, options: Options) -> dict[str, Any]:
    """Write a model's artifact to `output` and return its manifest.

    Weights are compiled. A ready ONNX export is taken where there are none, or where they are of a
    family that the compiler does not know.

    Raises:
        CompilerError: one of its kinds, with nothing written.
    """
    choice = find_export(source.folder, options.precision)
    if choice:
        return _take_export(source, choice, output, options)
    return _compile_weights(source, output, options)


def _compile_weights(source: Source, output: Path, options: Options) -> dict[str, Any]:
    model = read_model_folder(source.folder)
    precision = options.precision or Precision.INT8
    _note_unnormalized(model)
    with new_artifact(output) as partial:
        tables = _write_tokenizer(model, partial, options)
        graph = write_graph(model, partial, precision, progress=options.progress)
        written = Written(
            graph=graph,
            precision=str(precision),
            inputs=INPUTS,
            output=OUTPUT,
            optimization="none",
        )
        content = manifest_content(
            source, model, options.choices, written=written, tables=tables, folder=partial
        )
        if options.thresholds:
            report, golden = accept(
                model,
                partial,
                content,
                graph,
                golden=source.entry.golden if source.entry else (),
                thresholds=options.thresholds,
                documents=options.documents,
                progress=options.progress,
            )
            content |= {"fidelity": report.as_json(), "golden": golden}
            _say(table(report), options)
        (partial / MANIFEST_FILE).write_bytes(manifest_bytes(content))
    return content


def _take_export(source: Source, choice: Choice, output: Path, options: Options) -> dict[str, Any]:
    reason = why_not_compiled(source.folder)
    _note(f"{reason or 'There are no weights.'} The ready export {choice.name} is taken instead.")
    path = source.folder / choice.name
    model = read_export_folder(source.folder, path)
    reference = _reference(source.folder, choice, model, options)
    _note_unnormalized(model)
    with new_artifact(output) as partial:
        tables = _write_tokenizer(model, partial, options)
        export = write_export(model, partial)
        written = Written(
            graph=export.graph,
            precision=path.stem,
            inputs=export.inputs,
            output=export.output,
            optimization="extended",
        )
        content = manifest_content(
            source, model, options.choices, written=written, tables=tables, folder=partial
        )
        tried = try_export(
            partial,
            content,
            name=choice.name,
            reference=reference,
            thresholds=options.thresholds,
            documents=options.documents,
            progress=options.progress,
        )
        content |= {
            "fidelity": {
                "export": choice.name,
                "instead_of_weights": reason,
                "reference": choice.reference if tried.fidelity else None,
                **tried.as_json(),
            },
            "golden": tried.golden,
        }
        _say(
            f"  {path.name} is taken as it is. Starting a session took {tried.start_seconds:.2f} s "
            f"of CPU here, as every cold start will; a model compiled from its weights starts far "
            f"sooner.",
            options,
        )
        _say(
            table(tried.fidelity)
            if tried.fidelity
            else f"  cosine alone to batched, least  {tried.batch_cosine_min:.7f}",
            options,
        )
        (partial / MANIFEST_FILE).write_bytes(manifest_bytes(content))
    return content


def _reference(
    folder: Path, choice: Choice, model: ExportFolder, options: Options
) -> ExportFolder | None:
    """Return the full-precision export that another is compared with, and say if there is none."""
    if options.precision is Precision.INT8 and choice.kind is not Kind.EIGHT:
        _note(f"int8 was asked for, and no export of 8 bits is there: {choice.name} is taken.")
    reference = read_export_folder(folder, folder / choice.reference) if choice.reference else None
    if reference and not reference.quantized:
        return reference
    if choice.kind is not Kind.FULL or model.quantized:
        _note(
            f"{choice.name} is not in full precision, and no export that is stands beside it. Only "
            "a text alone was compared with the same text in a batch; how far its vectors are from "
            "the model's own is not known."
        )
    return None


def _note_unnormalized(model: Described) -> None:
    if not model.normalized:
        _note(
            "modules.json has no Normalize. The embedder gives vectors of length 1: cosine "
            "similarity stays what it is, dot products and distances do not."
        )


def _write_tokenizer(model: Described, folder: Path, options: Options) -> TokenizerTables:
    with tqdm(total=1, desc="tokenizer", unit=" file", disable=not options.progress) as bar:
        tables = tokenizer_tables.build(model.tokenizer.data, embedding_rows=model.vocabulary_size)
        (folder / tables.file).write_bytes(tables.data)
        _check_limit(load(tables, folder), model.max_tokens)
        bar.update()
    if model.tokenizer.dropped:
        names = ", ".join(model.tokenizer.dropped)
        _say(f"  read as ordinary text, for the model has no row for it: {names}", options)
    if tables.reason:
        _say(f"  `tokenizers` itself will serve: {tables.reason}", options)
    return tables


def _check_limit(tokenizer: Tokenizer, limit: int) -> None:
    """Check that the limit leaves room for a text beside the special tokens."""
    specials = len(tokenizer.prefix) + len(tokenizer.suffix)
    if limit <= specials:
        raise SourceError(
            f"The model's limit of {limit} tokens leaves no room for a text: tokenizer.json puts "
            f"{specials} special tokens around each."
        )


def _note(text: str) -> None:
    """Say what whoever compiles has to know, also where no report is wanted."""
    sys.stderr.write(f"note: {text}\n")


def _say(text: str, options: Options) -> None:
    if options.progress:
        print(text)
