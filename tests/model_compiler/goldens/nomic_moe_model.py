"""A small random Nomic BERT with experts, and its vectors as its authors define them, in float64.

transformers has no such class. The layers of experts are `MoEBlock` of
https://github.com/nomic-ai/contrastors (src/contrastors/layers/moe.py), in the layout of
https://github.com/databricks/megablocks (megablocks/layers/mlp.py, router.py): the rows of `w1` and
`w2` are those of one expert after the other, and `w2` is not transposed. Its router divides the
shares by their sum if `moe_normalize_expert_weights` is true.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from tests.model_compiler.goldens import files
from tests.model_compiler.goldens.nomic_bert_model import OWN
from tests.model_compiler.goldens.random_model import (
    Array,
    Definition,
    RandomWeights,
    gelu,
    mean_of_length_1,
    softmax,
)
from tests.model_compiler.goldens.tiny_models import HIDDEN, WIDE, write_model

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
    weights = RandomWeights(11, scale=0.2, shift=0.2)
    weights.table("embeddings.word_embeddings", config["vocab_size"], hidden)
    weights.table("embeddings.token_type_embeddings", 1, hidden, scale=0.2)
    norms, experts = ["emb_ln"], config["num_experts"]
    for number in range(layers):
        layer = f"encoder.layers.{number}."
        sizes = {"attn.Wqkv": (3 * hidden, hidden), "attn.out_proj": (hidden, hidden)}
        if _has_experts(config, number):
            router = f"{layer}mlp.router.layer"
            weights.linear(router, experts, hidden, scale=1, bias=False)
            if twins:
                weights[f"{router}.weight"][1::2] = weights[f"{router}.weight"][::2]
            for matrix in ("w1", "w2"):
                weights.draw(f"{layer}mlp.experts.mlp.{matrix}", experts * wide, hidden, scale=0.2)
            weights.draw(f"{layer}mlp.experts.bias", hidden, scale=0.2)
        else:
            sizes |= {"mlp.fc1": (wide, hidden), "mlp.fc2": (hidden, wide)}
        for name, (outputs, inputs) in sizes.items():
            weights.linear(f"{layer}{name}", outputs, inputs)
        norms += [f"{layer}norm1", f"{layer}norm2"]
    for norm in norms:
        weights.draw(f"{norm}.weight", hidden, mean=1)
        weights.draw(f"{norm}.bias", hidden)
    save_file(weights, folder / "model.safetensors")


def reference(folder: Path, ids: npt.NDArray[np.int64]) -> Array:
    """Return the mean of the last hidden states of one text, float64 [HIDDEN], of length 1."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    model = Definition(folder, heads=HEADS, epsilon=EPSILON)
    weights = model.weights

    def mixture(value: Array, layer: str) -> Array:
        w1, w2 = (
            weights[f"{layer}mlp.experts.mlp.{matrix}"].reshape(-1, WIDE, HIDDEN)
            for matrix in ("w1", "w2")
        )
        shares = softmax(value @ weights[f"{layer}mlp.router.layer.weight"].T)
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
        left_half, right_half = np.split(value, 2, axis=-1)
        return np.concatenate(
            [left_half * cosines - right_half * sines, right_half * cosines + left_half * sines],
            axis=-1,
        )

    words = weights["embeddings.word_embeddings.weight"][ids]
    x = model.norm(words + weights["embeddings.token_type_embeddings.weight"][0], "emb_ln")
    for number in range(LAYERS):
        layer = f"encoder.layers.{number}."
        projected = np.split(model.linear(x, f"{layer}attn.Wqkv"), 3, axis=-1)
        query, key, value = map(model.by_head, projected)
        mixed = model.attend(rotated(query), rotated(key), value)
        x = model.norm(x + model.linear(mixed, f"{layer}attn.out_proj"), f"{layer}norm1")
        if _has_experts(config, number):
            added = mixture(x, layer)
        else:
            added = model.linear(gelu(model.linear(x, f"{layer}mlp.fc1")), f"{layer}mlp.fc2")
        x = model.norm(x + added, f"{layer}norm2")
    return mean_of_length_1(x)


def _has_experts(config: dict[str, Any], layer: int) -> bool:
    every = config["moe_every_n_layers"]
    return every > 0 and layer % every == 1
