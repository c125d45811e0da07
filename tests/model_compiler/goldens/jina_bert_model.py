"""A small random Jina BERT, and its vectors as the papers define them, in float64.

transformers does not have the family, and its own code is not run. The layers are BERT's (Devlin et
al., 2018) with the bias of Press et al., 2022, section 3, in both directions, and the feed-forward
layer is GEGLU (Shazeer, 2020, https://arxiv.org/abs/2002.05202, equation 6).
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from tests.model_compiler.goldens.files import read_json
from tests.model_compiler.goldens.random_model import (
    Array,
    Definition,
    RandomWeights,
    gelu,
    mean_of_length_1,
)
from tests.model_compiler.goldens.tiny_models import TOKENS, WIDE, write_model

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
#: Slopes by the number of heads: the paper's example, and its code's rule for other numbers.
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
    weights = RandomWeights(7, scale=0.15, shift=0.15)
    weights.table("embeddings.word_embeddings", len(TOKENS), WIDTH)
    weights.table("embeddings.token_type_embeddings", 2, WIDTH, scale=0.15)
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{number}." for number in range(LAYERS)):
        for projection in ("self.query", "self.key", "self.value", "output.dense"):
            weights.linear(f"{layer}attention.{projection}", WIDTH, WIDTH)
        up, down = ("up_gated_layer", "down_layer") if qk else ("gated_layers", "wo")
        weights.linear(f"{layer}mlp.{up}", 2 * WIDE, WIDTH, bias=False)
        weights.linear(f"{layer}mlp.{down}", WIDTH, WIDE)
        own = [f"attention.self.layer_norm_{letter}" for letter in "qk"]
        own += ["layer_norm_1", "layer_norm_2"]
        norms += [f"{layer}{norm}" for norm in (own if qk else ["mlp.layernorm"])]
        norms.append(f"{layer}attention.output.LayerNorm")
    for norm in norms:
        weights.draw(f"{norm}.weight", WIDTH, mean=1)
        weights.draw(f"{norm}.bias", WIDTH)
    save_file(weights, folder / "model.safetensors")
    return folder


def reference(folder: Path, ids: npt.NDArray[np.int64]) -> Array:
    """Return the mean of the last hidden states of one text, float64 [WIDTH], of length 1."""
    heads = read_json(folder / "config.json")["num_attention_heads"]
    model = Definition(folder, heads=heads, epsilon=EPSILON)
    position = np.arange(len(ids))
    bias = -np.array(SLOPES[heads])[:, None, None] * abs(position[:, None] - position)
    words = model.weights["embeddings.word_embeddings.weight"][ids]
    types = model.weights["embeddings.token_type_embeddings.weight"]
    x = model.norm(words + types[0], "embeddings.LayerNorm")
    for layer in (f"encoder.layer.{number}." for number in range(LAYERS)):
        own = f"{layer}layer_norm_1.weight" in model.weights
        projected = [
            model.linear(x, f"{layer}attention.self.{projection}")
            for projection in ("query", "key", "value")
        ]
        if own:
            for number, letter in enumerate("qk"):
                norm = f"{layer}attention.self.layer_norm_{letter}"
                projected[number] = model.norm(projected[number], norm)
        query, key, value = map(model.by_head, projected)
        mixed = model.attend(query, key, value, bias)
        mixed = model.linear(mixed, f"{layer}attention.output.dense")
        attended = model.norm(x + mixed, f"{layer}attention.output.LayerNorm")
        x = model.norm(x + attended, f"{layer}layer_norm_1") if own else attended
        up_name, down_name = ("up_gated_layer", "down_layer") if own else ("gated_layers", "wo")
        halves = np.split(model.linear(x, f"{layer}mlp.{up_name}"), 2, axis=-1)
        up, gate = halves if own else halves[::-1]
        narrowed = model.linear(gelu(gate) * up, f"{layer}mlp.{down_name}")
        x = model.norm(x + narrowed, f"{layer}layer_norm_2" if own else f"{layer}mlp.layernorm")
    return mean_of_length_1(x)
