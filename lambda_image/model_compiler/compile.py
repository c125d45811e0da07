"""The steps from a model to an artifact, in order."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from embedder.tokenizers import Tokenizer, load
from model_compiler import tokenizer_tables
from model_compiler.acceptance import accept, try_export
from model_compiler.artifact_writer import MANIFEST_FILE, manifest_bytes, new_artifact
from model_compiler.errors import SourceError
from model_compiler.export_file import write_export
from model_compiler.export_folder import find_export, read_export_folder
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

    precision: Precision = Precision.INT8
    choices: Choices = field(default_factory=Choices)
    #: What the artifact must reach to be written; none to write it unmeasured.
    thresholds: Thresholds | None = field(default_factory=Thresholds)
    #: Among how many docstrings the nearest neighbors are compared, at most.
    documents: int = DOCUMENTS
    #: Whether to draw progress bars and print the report.
    progress: bool = True


def compile_model(source: Source, output: Path, options: Options) -> dict[str, Any]:
    """Write a model's artifact to `output` and return its manifest.

    A folder with weights is compiled; a ready ONNX export without weights is taken as it is.

    Raises:
        CompilerError: one of its kinds, with nothing written.
    """
    export = find_export(source.folder, options.precision)
    if export:
        return _take_export(source, export, output, options)
    return _compile_weights(source, output, options)


def _compile_weights(source: Source, output: Path, options: Options) -> dict[str, Any]:
    model = read_model_folder(source.folder)
    with new_artifact(output) as partial:
        tables = _write_tokenizer(model, partial, options)
        graph = write_graph(model, partial, options.precision, progress=options.progress)
        written = Written(
            graph=graph,
            precision=str(options.precision),
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


def _take_export(source: Source, path: Path, output: Path, options: Options) -> dict[str, Any]:
    model = read_export_folder(source.folder, path)
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
        tried = try_export(partial, content, progress=options.progress)
        content |= {"fidelity": tried.as_json(), "golden": tried.golden}
        _say(
            f"  {path.name} is taken as it is. Starting a session took {tried.start_seconds:.2f} s "
            f"of CPU here, as every cold start will; a model compiled from its weights starts far "
            f"sooner.\n  cosine alone to batched, least  {tried.batch_cosine_min:.7f}",
            options,
        )
        (partial / MANIFEST_FILE).write_bytes(manifest_bytes(content))
    return content


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


def _say(text: str, options: Options) -> None:
    if options.progress:
        print(text)
