"""A small random Jina BERT, and its vectors as the papers define them, in float64.

transformers does not have the family, and its own code is not run. The layers are BERT's (Devlin et
al., 2018) with the bias of Press et al., 2022, section 3, in both directions, and the feed-forward
layer is GEGLU (Shazeer, 2020, https://arxiv.org/abs/2002.05202, equation 6).
"""

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from tests.model_compiler.goldens import files
from tests.model_compiler.goldens.files import Tensors
from tests.model_compiler.goldens.tiny_models import TOKENS, WIDE, write_model

Array = npt.NDArray[np.float64]
WIDTH, LAYERS, EPSILON = 48, 2, 1e-12
CODE = "jinaai/jina-bert-implementation--"
OWN: dict[str, Any] = {
    "architectures": ["JinaBertForMaskedLM"],
    "attn_implementation": "torch",
    "auto_map": {
        "AutoConfig": f"{CODE}configuration_bert.JinaBertConfig",
        "AutoModel": f"{CODE}modeling_bert.JinaBertModel",
    },
    "emb_pooler": "mean",
    "feed_forward_type": "geglu",
    "hidden_size": WIDTH,
    "layer_norm_eps": EPSILON,
    "max_position_embeddings": 8192,
    "model_max_length": 8192,
    "num_hidden_layers": LAYERS,
    "position_embedding_type": "alibi",
}
#: By the number of heads: the paper's own example, and the rule of its code for other numbers.
SLOPES = {
    4: [2.0**-number for number in (2, 4, 6, 8)],
    6: [2.0**-number for number in (2, 4, 6, 8, 1, 3)],
    8: [2.0**-number for number in range(1, 9)],
    12: [2.0**-number for number in (*range(1, 9), 0.5, 1.5, 2.5, 3.5)],
}


def write_jina_bert(folder: Path, heads: int = 4, *, qk: bool = False) -> Path:
    """Write the sentence-transformers folder and return it; `qk` is for normalized queries."""
    write_model(folder, config={**OWN, "num_attention_heads": heads})
    (folder / "sentence_bert_config.json").unlink()  # the limit is the number of positions
    normal = partial(files.normal, np.random.default_rng(7), scale=0.15)
    tensors: Tensors = {
        "embeddings.word_embeddings.weight": normal(len(TOKENS), WIDTH, scale=1),
        "embeddings.token_type_embeddings.weight": normal(2, WIDTH),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{number}." for number in range(LAYERS)):
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            tensors[f"{layer}attention.{part}.weight"] = normal(WIDTH, WIDTH)
            tensors[f"{layer}attention.{part}.bias"] = normal(WIDTH)
        up, down = ("up_gated_layer", "down_layer") if qk else ("gated_layers", "wo")
        tensors[f"{layer}mlp.{up}.weight"] = normal(2 * WIDE, WIDTH)
        tensors[f"{layer}mlp.{down}.weight"] = normal(WIDTH, WIDE)
        tensors[f"{layer}mlp.{down}.bias"] = normal(WIDTH)
        own = [f"attention.self.layer_norm_{part}" for part in "qk"]
        own += ["layer_norm_1", "layer_norm_2"]
        norms += [f"{layer}{part}" for part in (own if qk else ["mlp.layernorm"])]
        norms.append(f"{layer}attention.output.LayerNorm")
    for norm in norms:
        tensors[f"{norm}.weight"] = normal(WIDTH, scale=0.1, mean=1)
        tensors[f"{norm}.bias"] = normal(WIDTH, scale=0.1)
    save_file(tensors, folder / "model.safetensors")
    return folder


def reference(folder: Path, ids: npt.NDArray[np.int64], heads: int) -> Array:
    """Return the mean of the last hidden states of one text, float64 [WIDTH], of length 1."""
    weights = {
        name: tensor.astype(np.float64)
        for name, tensor in load_file(folder / "model.safetensors").items()
    }

    def linear(value: Array, name: str) -> Array:
        return value @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0)

    def norm(value: Array, name: str) -> Array:
        centered = value - value.mean(axis=-1, keepdims=True)
        scaled = centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + EPSILON)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    erf = np.vectorize(math.erf)
    place = np.arange(len(ids))
    bias = -np.array(SLOPES[heads])[:, None, None] * abs(place[:, None] - place)
    words = weights["embeddings.word_embeddings.weight"][ids]
    x = norm(words + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in (f"encoder.layer.{number}." for number in range(LAYERS)):
        own = f"{layer}layer_norm_1.weight" in weights
        parts = [linear(x, f"{layer}attention.self.{part}") for part in ("query", "key", "value")]
        if own:
            for number, part in enumerate("qk"):
                parts[number] = norm(parts[number], f"{layer}attention.self.layer_norm_{part}")
        query, key, value = (part.reshape(len(ids), heads, -1).swapaxes(0, 1) for part in parts)
        scores = query @ key.swapaxes(1, 2) / math.sqrt(WIDTH / heads) + bias
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = shares / shares.sum(axis=-1, keepdims=True) @ value
        mixed = linear(
            mixed.swapaxes(0, 1).reshape(len(ids), WIDTH), f"{layer}attention.output.dense"
        )
        attended = norm(x + mixed, f"{layer}attention.output.LayerNorm")
        x = norm(x + attended, f"{layer}layer_norm_1") if own else attended
        up_name, down_name = ("up_gated_layer", "down_layer") if own else ("gated_layers", "wo")
        halves = np.split(linear(x, f"{layer}mlp.{up_name}"), 2, axis=-1)
        up, gate = halves if own else halves[::-1]
        gated = gate * (1 + erf(gate / math.sqrt(2))) / 2 * up
        narrowed = linear(gated, f"{layer}mlp.{down_name}")
        x = norm(x + narrowed, f"{layer}layer_norm_2" if own else f"{layer}mlp.layernorm")
    vector: Array = x.mean(axis=0)
    return vector / np.linalg.norm(vector)
