"""Replicas of published models with random weights, and their forms for the contenders.

The folders are written once, completely or not at all. Only artifacts are compiled each time, which
takes seconds, because they change with the code.
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.numpy import save_file

from embedder.core.artifact import MANIFEST_FILE, manifest_checksum
from model_compiler.artifact.writer import new_folder
from model_compiler.compile import CompileOptions, compile_model
from model_compiler.graph.builder import Precision
from model_compiler.source.find import find_source
from tests.fixtures.replica import EMBEDDING_GEMMA, SMALL, write_replica
from tests.fixtures.tokenizer_files import tokenizer_json
from tests.model_compiler.goldens.files import write_json
from tests.model_compiler.goldens.nomic_moe_model import MOE, write_weights
from tools.bench.contenders import python_of

Json = dict[str, Any]

_PEER_FORMS = Path(__file__).with_name("peer_forms.py")
#: The classes of the modules, in the order of `modules.json`.
_MODULES = ("Transformer", "Pooling", "Normalize")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of one kind of model, as `shapes.toml` describes them."""

    vocabulary: int
    dimensions: int
    max_tokens: int
    tokenizer: str
    pooling: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)


def described(file: str, kind: Callable[..., _T]) -> Mapping[str, _T]:
    """Read a file of this folder, which has a table for each name."""
    tables = tomllib.loads(Path(__file__).with_name(file).read_text("utf-8"))
    return {name: kind(**values) for name, values in tables.items()}


SHAPES = described("shapes.toml", Shape)


def replica(cache: Path, name: str, peers: bool, *, small: bool = False, labels: int = 0) -> Path:
    """Return a sentence-transformers folder of a shape; or a classifier's with these labels.

    A shape with a graph, except Gemma's, needs `peers`: transformers makes its weights. A small
    Gemma has fewer and smaller layers than the published model.
    """
    shape = SHAPES[name]
    if shape.config.get("model_type") == "gemma3_text":
        folder = cache / (f"{name}-small" if small else name)
        return write_replica(folder, SMALL if small else EMBEDDING_GEMMA)

    def write(folder: Path) -> None:
        write_all_but_weights(folder, shape, labels=labels)
        if "num_experts" in shape.config:
            write_weights(folder)  # transformers has no such class.
        elif shape.config:
            if not peers:
                raise SystemExit(f"error: the replica of {name} needs --peers: torch makes it")
            _peer_form("weights", folder, folder)
        else:
            rows = np.random.RandomState(0).standard_normal((shape.vocabulary, shape.dimensions))
            save_file({"embedding.weight": rows.astype(np.float32)}, folder / "model.safetensors")

    folder = cache / (f"{name}-labels-{labels}" if labels else name)
    return _once(folder, "config.json" if labels else "modules.json", write)


def write_all_but_weights(folder: Path, shape: Shape, *, labels: int = 0) -> None:
    """Write the tokenizer and the settings of a shape."""
    (folder / "tokenizer.json").write_bytes(tokenizer_json(shape.tokenizer, shape.vocabulary))
    for file, value in (_of_classifier(shape, labels) if labels else _of_embedder(shape)).items():
        (folder / file).parent.mkdir(exist_ok=True)
        write_json(folder / file, value)
    if shape.pooling and not labels:
        (folder / "2_Normalize").mkdir()  # The module has no settings.


def _of_classifier(shape: Shape, labels: int) -> Json:
    """Return the files of a classifier, or cross-encoder, for texts of up to 512 tokens."""
    typed = ["token_type_ids"] * (shape.config["model_type"] == "bert")
    names = ["input_ids", "attention_mask", *typed]
    return {
        "config.json": {
            "vocab_size": shape.vocabulary,
            "id2label": {str(label): f"LABEL_{label}" for label in range(labels)},
            **shape.config,
        },
        "tokenizer_config.json": {"model_max_length": 512, "model_input_names": names},
    }


def _of_embedder(shape: Shape) -> Json:
    module_names = _MODULES if shape.config else ("StaticEmbedding",)
    files: Json = {
        "config_sentence_transformers.json": {"similarity_fn_name": "cosine"},
        "modules.json": [
            {
                "idx": number,
                "name": str(number),
                "path": f"{number}_{module_name}" if number else "",
                "type": f"sentence_transformers.models.{module_name}",
            }
            for number, module_name in enumerate(module_names)
        ],
    }
    if shape.config.get("model_type") in {"gte", "mpnet"} and shape.tokenizer == "wordpiece":
        # These replicas have BERT's special tokens, as English GTE has.
        files["tokenizer_config.json"] = {"tokenizer_class": "BertTokenizer"}
    if shape.tokenizer == "unigram":
        files["tokenizer_config.json"] = {"tokenizer_class": "XLMRobertaTokenizer"}
    if shape.config:
        own = {} if "text_config" in shape.config else {"vocab_size": shape.vocabulary}
        pooling = {"embedding_dimension": shape.dimensions, "pooling_mode": shape.pooling}
        base = MOE if "num_experts" in shape.config else {}
        files["config.json"] = {**base, **shape.config, **own}
        files["sentence_bert_config.json"] = {"max_seq_length": shape.max_tokens}
        files["1_Pooling/config.json"] = pooling
    return files


def artifact_of(
    source: Path | str, cache: Path, precision: Precision = Precision.INT8, name: str = "artifact"
) -> Path:
    """Compile a model. Random weights have no meaning to compare."""
    artifact = cache / f"{Path(source).name}-{name}"
    options = CompileOptions(precision, thresholds=None, progress=False)
    compile_model(find_source(str(source)), artifact, options)
    return artifact


def without_operator(artifact: Path) -> Path | None:
    """Return the folder of the same artifact with the graph of ONNX Runtime's operators alone.

    None if it has no other.
    """
    content = json.loads((artifact / MANIFEST_FILE).read_text("utf-8"))
    del content["checksum"]
    operator_file = content["graph"].pop("operator_file", None)
    if operator_file is None:
        return None
    del content["files"][operator_file]
    folder = artifact.with_name(f"{artifact.name}-plain")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(artifact, folder, copy_function=os.link)
    content["checksum"] = manifest_checksum(content)
    (folder / MANIFEST_FILE).unlink()  # It is a link.
    write_json(folder / MANIFEST_FILE, content)
    return folder


def export_of(source: Path, cache: Path, peers: bool) -> Path:
    """Return the plain fp32 graph of a folder, with its tokenizer.

    With `peers` torch exports it; without, it is our own compiler's graph.
    """

    def write(folder: Path) -> None:
        if peers:
            _peer_form("export", source, folder)
        else:
            artifact = artifact_of(source, folder, Precision.FP32)
            for file in artifact.glob("model.onnx*"):
                file.rename(folder / file.name)
            shutil.rmtree(artifact)
        # The tokenizers of fastembed and transformers need them.
        for file in (source / "config.json", *source.glob("*token*.json")):
            shutil.copy(file, folder)
        if not (special := folder / "special_tokens_map.json").exists():
            special.write_text('{"pad_token": "<pad>"}\n', encoding="utf-8")

    origin = "torch" if peers else "own"
    return _once(cache / f"{source.name}-export-{origin}", "model.onnx", write)


def baseline_of(export: Path) -> Path:
    """Return an export after `quantize_dynamic` with one scale per tensor.

    It quantizes the graph that ONNX Runtime's optimization level Basic writes.
    """

    def write(folder: Path) -> None:
        folded = folder / "folded.onnx"
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(folded)
        prefix = "session.optimized_model_external_initializers"
        options.add_session_config_entry(f"{prefix}_file_name", "folded.onnx.data")
        options.add_session_config_entry(f"{prefix}_min_size_in_bytes", "1024")
        onnxruntime.InferenceSession(str(export / "model.onnx"), options)
        model = onnx.load(str(folded), load_external_data=False)
        del model.graph.value_info[:]  # Its shapes apply only to the traced batch.
        onnx.save(model, str(folded))
        quantize(folded, folder / "model.onnx")
        for leftover in folder.glob("folded.*"):
            leftover.unlink()
        # transformers' tokenizer also needs the settings.
        for file in (export / "config.json", *export.glob("tokenizer*.json")):
            shutil.copy(file, folder)

    return _once(export.with_name(f"{export.name}-int8"), "model.onnx", write)


def quantize(graph: Path, target: Path) -> None:
    """Write a graph in ONNX Runtime's usual int8: one scale per tensor."""
    quantize_dynamic(
        graph,
        target,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul", "Gather"],
        use_external_data_format=True,
        # A node of another domain has no known type.
        extra_options={"MatMulConstBOnly": True, "DefaultTensorType": onnx.TensorProto.FLOAT},
    )


def real(cache: Path, name: str) -> Path:
    """Return a link to the folder of a model that is on this machine, with its real weights."""
    link = cache / name
    if not link.exists():
        cache.mkdir(parents=True, exist_ok=True)
        link.symlink_to(find_source(name).folder.path, target_is_directory=True)
    return link


#: The file of an engine's form.
_MARKERS = {"openvino": "model.xml", "litert": "model.tflite", "llama-cpp": "model.gguf"}


def form_of(source: Path, kind: str, *extra: Path) -> Path:
    """Return the form of a folder for a kind of contender, as `peer_forms.py` makes it."""

    def write(folder: Path) -> None:
        _peer_form(kind, source.resolve(), folder, *extra)
        shutil.copy(source / "tokenizer.json", folder)

    (marker,) = (file for engine, file in _MARKERS.items() if kind.startswith(engine))
    return _once(source.with_name(f"{source.name}-{kind}"), marker, write)


def _once(folder: Path, marker: str, write: Callable[[Path], None]) -> Path:
    if not folder.exists():
        sys.stderr.write(f"making {folder} ...\n")
        with new_folder(folder, marker=marker) as unfinished:
            write(unfinished)
    return folder


def _peer_form(*arguments: object) -> None:
    command = [python_of("peers"), str(_PEER_FORMS), *map(str, arguments)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own program
    except subprocess.CalledProcessError as error:
        raise SystemExit(
            f"error: `{' '.join(command)}` failed with status {error.returncode}:\n{error.stderr}"
        ) from error
