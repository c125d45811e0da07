"""The steps from a model to an artifact, in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from model_compiler import identity, tokenizer_tables
from model_compiler.artifact_writer import (
    FORMAT_VERSION,
    describe_files,
    manifest_bytes,
    new_artifact,
)
from model_compiler.errors import SourceError
from model_compiler.graph import GraphBuilder
from model_compiler.model_folder import ModelFolder, read_model_folder
from model_compiler.quantization import Precision
from model_compiler.sentence_modules import normalize
from model_compiler.source import Source
from model_compiler.weights import Weights

__all__ = ["Options", "compile_model"]

GRAPH_FILE = "model.onnx"
WEIGHTS_FILE = "model.onnx.data"
INPUTS = ("input_ids", "attention_mask")
OUTPUT = "sentence_embedding"


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile."""

    precision: Precision = Precision.INT8
    #: The sizes that callers may ask for; empty for what the catalogue says, or the full one alone.
    dimensions: tuple[int, ...] = ()
    #: The prompt of texts that come without one; none for what the model or its card says.
    default_prompt: str | None = None
    #: Whether to draw progress bars.
    progress: bool = True


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph on the disk."""

    digest: bytes
    source_digest: bytes
    architecture: str


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
        manifest = {
            "format_version": FORMAT_VERSION,
            "model": {
                "name": source.name,
                "revision": source.revision or f"sha256:{graph.source_digest.hex()[:12]}",
                "architecture": model.architecture.name,
                "licence": source.licence,
            },
            "vector_space": identity.vector_space(
                label=source.entry.short_name if source.entry else source.name.rpartition("/")[2],
                source=graph.source_digest,
                precision=options.precision,
                graph=graph.digest,
                settings={
                    **settings,
                    "dimensions": None,
                    "tokenizer": model.tokenizer.data.decode("utf-8", "surrogatepass"),
                },
            ),
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
        (partial / "manifest.json").write_bytes(manifest_bytes(manifest))
    return manifest


def write_graph(
    model: ModelFolder, folder: Path, precision: Precision, *, progress: bool = False
) -> Graph:
    """Write the model's graph and weights into a folder.

    Raises:
        SourceError: if the weights are missing, damaged, or not what the configuration says.
        UnsupportedModelError: if there are weights that the graph has no use for.
        OSError: if the disk is full.
    """
    with (
        (folder / WEIGHTS_FILE).open("wb") as file,
        tqdm(desc="weights", unit="B", unit_scale=True, disable=not progress) as bar,
    ):
        encoder = Weights(model.encoder_folder, progress=bar.update)
        dense = [Weights(module.folder, progress=bar.update) for module in model.dense]
        bar.total = sum(weights.total_bytes for weights in (encoder, *dense))
        builder = GraphBuilder(
            name=model.architecture.name, weights=file, weights_file=WEIGHTS_FILE
        )
        for name in INPUTS:
            builder.input(name, dtype=np.int64, shape=["batch", "tokens"])
        value = model.architecture.build(builder, encoder, precision)
        value = model.pooling.add(builder, value)
        for module, weights in zip(model.dense, dense, strict=True):
            value = module.add(builder, value, weights, precision)
        normalize(builder, value, output=OUTPUT)
        builder.output(OUTPUT, dtype=np.float32, shape=["batch", model.dimension])
        bar.update(bar.total - bar.n)  # tensors that nobody needs
    proto = builder.model()
    (folder / GRAPH_FILE).write_bytes(proto.SerializeToString(deterministic=True))
    return Graph(
        digest=identity.graph_digest(proto, weights=builder.external_digests),
        source_digest=b"".join(weights.digest for weights in (encoder, *dense)),
        architecture=model.architecture.name,
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
