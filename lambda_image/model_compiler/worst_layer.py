"""Names the layer of a graph that takes its vectors furthest from full precision."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

__all__ = ["worst_layer"]

GRAPH_FILE = "marked.onnx"


def worst_layer(
    artifact: Path,
    reference: Path,
    *,
    marks: Mapping[str, tuple[str, str]],
    sequences: Sequence[Sequence[int]],
) -> str:
    """Compare what each layer gives in two graphs of one model.

    Args:
        artifact: the quantized graph's file; its weights stand beside it.
        reference: the same in full precision.
        marks: for each label of a layer, in order, its value's name in the one and in the other.
        sequences: token ids of a few texts, special tokens included.

    Returns:
        The label of the layer that adds most to the error, and how much, in words.
    """
    errors = _values(artifact, [pair[0] for pair in marks.values()], sequences)
    wanted = _values(reference, [pair[1] for pair in marks.values()], sequences)
    shares = [
        float(np.mean([_distance(one, other) for one, other in zip(found, right, strict=True)]))
        for found, right in zip(errors, wanted, strict=True)
    ]
    added = np.diff([0.0, *shares])
    worst = int(added.argmax())
    return (
        f"{list(marks)[worst]}, which takes the relative error of the hidden state from "
        f"{shares[worst] - added[worst]:.4f} to {shares[worst]:.4f}"
    )


def _values(
    path: Path, names: Sequence[str], sequences: Sequence[Sequence[int]]
) -> list[list[npt.NDArray[np.float32]]]:
    """Run a graph with inner values as its outputs; return them by layer and text."""
    model = onnx.load(path, load_external_data=False)
    for name in names:
        model.graph.output.append(
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        )
    marked = path.with_name(GRAPH_FILE)
    marked.write_bytes(model.SerializeToString())
    try:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(
            str(marked), options, providers=["CPUExecutionProvider"]
        )
        runs = [
            session.run(
                list(names),
                {
                    "input_ids": np.array([ids], np.int64),
                    "attention_mask": np.ones((1, len(ids)), np.int64),
                },
            )
            for ids in sequences
        ]
    finally:
        marked.unlink()
    return [list(layer) for layer in zip(*runs, strict=True)]


def _distance(one: npt.NDArray[np.float32], other: npt.NDArray[np.float32]) -> float:
    difference = (one - other).astype(np.float64)
    return float(np.linalg.norm(difference) / np.linalg.norm(other.astype(np.float64)))
