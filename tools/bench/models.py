"""The folders of the contenders, each written once to `.cache/bench`, completely or not at all."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic

from model_compiler.artifact.writer import new_folder
from model_compiler.compile import Options, compile_model
from model_compiler.source.find import find_source
from tests.fixtures.replica import EMBEDDING_GEMMA, SMALL, write_replica
from tools.bench.plain_graph import write_plain_graph

__all__ = ["Models", "prepare"]

#: The files that the tokenizers of fastembed and transformers need.
_TOKENIZER_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True, slots=True)
class Models:
    """The folder of each form of the model.

    Attributes:
        source: The sentence-transformers folder.
        artifact: The artifact of this project's compiler.
        export: A plain fp32 ONNX export with its tokenizer.
        baseline: That export, quantized with `quantize_dynamic`.
        exported_by: The program that wrote the export.
    """

    source: Path
    artifact: Path
    export: Path
    baseline: Path
    exported_by: str


def prepare(cache: Path, *, model: Path | None, quick: bool, peers_python: str | None) -> Models:
    """Create missing folders.

    Args:
        cache: The folder that contains them.
        model: A sentence-transformers folder with real weights; None for the replica.
        quick: Whether the replica is the small one.
        peers_python: An interpreter that has torch and transformers, for the real export.
    """
    if model is None:
        name = "small" if quick else "replica"
        source = write_replica(cache / name, SMALL if quick else EMBEDDING_GEMMA)
    else:
        name, source = model.resolve().name, model.resolve()
    exporter = "torch" if peers_python and _has_torch(peers_python) else "plain"
    # Compiled each time, which takes seconds, because it changes with the code.
    artifact = cache / f"{name}-artifact"
    # Random weights have no meaning to compare.
    compile_model(find_source(str(source)), artifact, Options(thresholds=None, progress=False))
    export = _made(
        cache / f"{name}-export-{exporter}",
        lambda folder: _export(source, folder, peers_python if exporter == "torch" else None),
    )
    baseline = _made(
        cache / f"{name}-baseline-{exporter}", lambda folder: _quantize(export, folder)
    )
    return Models(
        source=source,
        artifact=artifact,
        export=export,
        baseline=baseline,
        exported_by=(
            "torch.onnx.export(dynamo=True)"
            if exporter == "torch"
            else "our plain graph of the same steps (torch is not installed)"
        ),
    )


def _made(folder: Path, make: Callable[[Path], None]) -> Path:
    """Create a folder with a `model.onnx`, unless a previous run has created it."""
    if not folder.exists():
        sys.stderr.write(f"making {folder} ...\n")
        with new_folder(folder, marker="model.onnx") as unfinished:
            make(unfinished)
    return folder


def _export(source: Path, folder: Path, torch_python: str | None) -> None:
    if torch_python is None:
        write_plain_graph(source, folder)
    else:
        script = Path(__file__).with_name("torch_export.py")
        subprocess.run(  # noqa: S603 - the interpreter that the user named
            [torch_python, str(script), str(source), str(folder)], check=True, capture_output=True
        )
    for name in _TOKENIZER_FILES:
        shutil.copy(source / name, folder / name)
    (folder / "special_tokens_map.json").write_text('{"pad_token": "<pad>"}\n', encoding="utf-8")


def _quantize(export: Path, folder: Path) -> None:
    """Run `quantize_dynamic` with one scale per tensor, on the graph that level Basic writes."""
    folded = folder / "folded.onnx"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folded)
    for key, value in (
        ("file_name", "folded.onnx.data"),
        ("min_size_in_bytes", "1024"),
    ):
        options.add_session_config_entry(
            f"session.optimized_model_external_initializers_{key}", value
        )
    onnxruntime.InferenceSession(str(export / "model.onnx"), options)
    model = onnx.load(str(folded), load_external_data=False)
    del model.graph.value_info[:]  # Its shapes apply only to the traced batch.
    onnx.save(model, str(folded))
    quantize_dynamic(
        folded,
        folder / "model.onnx",
        weight_type=QuantType.QInt8,
        per_channel=False,
        op_types_to_quantize=["MatMul", "Gather"],
        use_external_data_format=True,
        extra_options={"MatMulConstBOnly": True},
    )
    for leftover in folder.glob("folded.*"):
        leftover.unlink()
    shutil.copy(export / "tokenizer.json", folder)


def _has_torch(python: str) -> bool:
    command = [python, "-c", "import torch, transformers"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603
