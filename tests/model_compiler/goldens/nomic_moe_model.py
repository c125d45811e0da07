"""A small random Nomic BERT with experts, and its vectors as its authors define them, in float64.

transformers has no such class. The layers of experts are `MoEBlock` of
https://github.com/nomic-ai/contrastors (src/contrastors/layers/moe.py), in the layout of
https://github.com/databricks/megablocks (megablocks/layers/mlp.py, router.py): the rows of `w1` and
`w2` are those of one expert after the other, and `w2` is not transposed. Its router divides the
shares by their sum if `moe_normalize_expert_weights` is true.
"""

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from tests.model_compiler.goldens import files
from tests.model_compiler.goldens.files import Tensors
from tests.model_compiler.goldens.nomic_bert_model import OWN
from tests.model_compiler.goldens.tiny_models import HIDDEN, WIDE, write_model

Array = npt.NDArray[np.float64]
LAYERS, HEADS, BASE, EPSILON = 4, 4, 10000, 1e-5
#: The settings of nomic-embed-text-v2-moe that differ from v1.5's, with the small sizes.
MOE: dict[str, Any] = {
    **OWN,
    "_name_or_path": "nomic-ai/nomic-xlm-2048",
    "activation_function": "gelu",
    "add_pooling_layer": False,
    "embd_pdrop": 0.1,
    "expert_choice_router": False,
    "ffn_div": 1,
    "layer_norm_epsilon": EPSILON,
    "mlp_fc1_bias": True,
    "mlp_fc2_bias": True,
    "moe_every_n_layers": 2,
    "moe_impl": "megablocks",
    "moe_normalize_expert_weights": False,
    "moe_resid_pdrop": 0.0,
    "moe_top_k": 2,
    "n_layer": LAYERS,
    "num_experts": 8,
    "num_shared_experts": 0,
    "pad_token_id": 1,
    "qkv_proj_bias": True,
    "rotary_emb_base": BASE,
    "router_aux_loss_coef": 0.1,
    "summary_first_dropout": 0.1,
    "type_vocab_size": 1,
    "use_rms_norm": None,
}


def write_moe(folder: Path, *, twins: bool = False, **changes: Any) -> Path:
    """Write the sentence-transformers folder, with other keys of `config.json`, and return it.

    With `twins`, the router gives pairs of experts the same score.
    """
    write_model(folder)
    (folder / "sentence_bert_config.json").unlink()  # the limit is the number of positions
    files.write_json(folder / "config.json", {**MOE, **changes})
    write_weights(folder, twins=twins)
    return folder


def write_weights(folder: Path, *, twins: bool = False) -> None:
    """Write the weights of the folder's `config.json`; see `write_moe`."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    hidden, wide, layers = config["n_embd"], config["n_inner"], config["n_layer"]
    normal = partial(files.normal, np.random.default_rng(11), scale=0.2)
    tensors: Tensors = {
        "embeddings.word_embeddings.weight": normal(config["vocab_size"], hidden, scale=1),
        "embeddings.token_type_embeddings.weight": normal(1, hidden),
    }
    norms, experts = ["emb_ln"], config["num_experts"]
    for number in range(layers):
        layer = f"encoder.layers.{number}."
        sizes = {"attn.Wqkv": (3 * hidden, hidden), "attn.out_proj": (hidden, hidden)}
        if _has_experts(config, number):
            router = normal(experts, hidden, scale=1)
            tensors[f"{layer}mlp.router.layer.weight"] = router
            if twins:
                router[1::2] = router[::2]
            for part in ("w1", "w2"):
                tensors[f"{layer}mlp.experts.mlp.{part}"] = normal(experts * wide, hidden)
            tensors[f"{layer}mlp.experts.bias"] = normal(hidden)
        else:
            sizes |= {"mlp.fc1": (wide, hidden), "mlp.fc2": (hidden, wide)}
        for name, (outputs, inputs) in sizes.items():
            tensors[f"{layer}{name}.weight"] = normal(outputs, inputs)
            tensors[f"{layer}{name}.bias"] = normal(outputs)
        norms += [f"{layer}norm1", f"{layer}norm2"]
    for norm in norms:
        tensors[f"{norm}.weight"] = normal(hidden, scale=0.1, mean=1)
        tensors[f"{norm}.bias"] = normal(hidden, scale=0.1)
    save_file(tensors, folder / "model.safetensors")


def reference(folder: Path, ids: npt.NDArray[np.int64]) -> Array:
    """Return the mean of the last hidden states of one text, float64 [HIDDEN], of length 1."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    weights = {
        name: tensor.astype(np.float64)
        for name, tensor in load_file(folder / "model.safetensors").items()
    }

    def linear(value: Array, name: str) -> Array:
        return value @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(value: Array, name: str) -> Array:
        centered = value - value.mean(axis=-1, keepdims=True)
        scaled = centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + EPSILON)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def gelu(value: Array) -> Array:
        return value * (1 + np.vectorize(math.erf)(value / math.sqrt(2))) / 2

    def mixture(value: Array, layer: str) -> Array:
        w1, w2 = (
            weights[f"{layer}mlp.experts.mlp.{part}"].reshape(-1, WIDE, HIDDEN)
            for part in ("w1", "w2")
        )
        shares = _softmax(value @ weights[f"{layer}mlp.router.layer.weight"].T)
        result = np.tile(weights[f"{layer}mlp.experts.bias"], (len(value), 1))
        for token, row in enumerate(shares):
            chosen = np.argsort(-row.round(12), kind="stable")[: config["moe_top_k"]]
            total = row[chosen].sum() if config["moe_normalize_expert_weights"] else 1
            for expert in chosen:
                wide = gelu(w1[expert] @ value[token])
                result[token] += row[expert] / total * (wide @ w2[expert])
        return result

    size = HIDDEN // HEADS
    angles = np.outer(np.arange(len(ids)), BASE ** -(np.arange(0, size, 2) / size))
    cosines, sines = np.cos(angles), np.sin(angles)

    def rotated(value: Array) -> Array:
        first, second = np.split(value, 2, axis=-1)
        return np.concatenate(
            [first * cosines - second * sines, second * cosines + first * sines], axis=-1
        )

    words = weights["embeddings.word_embeddings.weight"][ids]
    x = norm(words + weights["embeddings.token_type_embeddings.weight"][0], "emb_ln")
    for number in range(LAYERS):
        layer = f"encoder.layers.{number}."
        query, key, value = (
            part.reshape(len(ids), HEADS, size).swapaxes(0, 1)
            for part in np.split(linear(x, f"{layer}attn.Wqkv"), 3, axis=-1)
        )
        scores = rotated(query) @ rotated(key).swapaxes(1, 2) / math.sqrt(size)
        mixed = (_softmax(scores) @ value).swapaxes(0, 1).reshape(len(ids), HIDDEN)
        x = norm(x + linear(mixed, f"{layer}attn.out_proj"), f"{layer}norm1")
        if _has_experts(config, number):
            x = norm(x + mixture(x, layer), f"{layer}norm2")
        else:
            wide = gelu(linear(x, f"{layer}mlp.fc1"))
            x = norm(x + linear(wide, f"{layer}mlp.fc2"), f"{layer}norm2")
    vector: Array = x.mean(axis=0)
    return vector / np.linalg.norm(vector)


def _has_experts(config: dict[str, Any], layer: int) -> bool:
    every = config["moe_every_n_layers"]
    return every > 0 and layer % every == 1


def _softmax(value: Array) -> Array:
    powers = np.exp(value - value.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
