"""Chooses the layers of an int8 graph that are kept in float32 if its vectors miss a threshold.

The outputs of all layers are compared with those of the same graph with all layers in float32. A
layer is bad if the relative error of the hidden state grows in it.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper

from embedder.core.fast_tokenizers import Tokenizer
from embedder.core.session import session_options
from model_compiler.fidelity.measure import texts
from model_compiler.graph.builder import Precision
from model_compiler.model.base import GRAPH_FILE, Graph, Model
from model_compiler.model.compiled import CompiledModel

Floats = npt.NDArray[np.float32]

#: Number of the report's texts that are compared, and of the tokens of each.
TEXTS = 20
TOKENS = 64
#: The relative error of a state that is not finite.
BROKEN = 1e9


def with_more_float32(
    model: Model, graph: Graph, folder: Path, tokenizer: Tokenizer
) -> CompiledModel | None:
    """Return the model with more of its layers in float32; None if there are no more.

    It is one layer at first, then twice as many each time, so that a large model is not compiled
    once for each of its layers.
    """
    if not isinstance(model, CompiledModel) or model.precision is Precision.FP32:
        return None
    kept = model.float32_layers
    rest = [layer for layer in range(len(graph.layers)) if layer not in kept]
    if not rest:
        return None
    sequences = _sequences(tokenizer, model.max_tokens)
    found = _hidden_states(folder, graph.layers, sequences)
    # Not the full-precision model: its hidden states are not rotated.
    exact_model = replace(model, float32_layers=frozenset(range(len(graph.layers))))
    with tempfile.TemporaryDirectory(prefix="reference-", dir=folder) as name:
        exact_graph = exact_model.write(Path(name))
        exact = _hidden_states(Path(name), exact_graph.layers, sequences)
    growth = _growth(found, exact)
    worst = sorted(rest, key=lambda layer: -growth[layer])[: max(1, len(kept))]
    return replace(model, float32_layers=kept | set(worst))


def _sequences(tokenizer: Tokenizer, max_tokens: int) -> list[list[int]]:
    every = list(texts().values())
    room = min(TOKENS, max_tokens) - len(tokenizer.prefix) - len(tokenizer.suffix)
    return [
        [*tokenizer.prefix, *tokenizer.encode(text)[:room], *tokenizer.suffix]
        for text in every[:: max(1, len(every) // TEXTS)]
    ]


def _hidden_states(
    folder: Path, layers: Sequence[str], sequences: Sequence[Sequence[int]]
) -> list[list[Floats]]:
    """Return the output of each layer for each text, float32 [tokens, width]."""
    proto = onnx.load(folder / GRAPH_FILE, load_external_data=False)
    proto.graph.output.extend(helper.make_empty_tensor_value_info(layer) for layer in layers)
    path = folder / "layers.onnx"
    path.write_bytes(proto.SerializeToString())
    options = session_options("none", threads=1)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    path.unlink()
    inputs = [entry.name for entry in session.get_inputs()]
    states = []
    for sequence in sequences:
        ids = np.array([sequence], np.int64)
        feed = dict(zip(inputs, (ids, np.ones_like(ids)), strict=True))
        # Some graphs pad a text inside: what follows its tokens does not matter.
        states.append([output[0, : len(sequence)] for output in session.run(list(layers), feed)])
    return states


def _growth(found: list[list[Floats]], exact: list[list[Floats]]) -> list[float]:
    """Return for each layer by how much it adds to the mean relative error of its texts."""
    errors = np.array(
        [
            [
                np.linalg.norm(one - other) / max(float(np.linalg.norm(other)), 1e-12)
                for one, other in zip(states, wanted, strict=True)
            ]
            for states, wanted in zip(found, exact, strict=True)
        ]
    )
    mean = np.nan_to_num(errors, nan=BROKEN, posinf=BROKEN).mean(axis=0)
    growth: list[float] = np.diff(mean, prepend=0.0).tolist()
    return growth
