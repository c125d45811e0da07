"""Small random encoders of BERT's kind, and the token ids that go through them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from tests.model_compiler.goldens.files import Tensors, respelled, write_json
from tests.model_compiler.goldens.random_model import RandomWeights
from tests.model_compiler.goldens.tiny_models import (
    HEADS,
    HIDDEN,
    LAYERS,
    TOKENS,
    WIDE,
    write_model,
)

#: Tokens that a text may have; MPNet's distances have their last bucket from 128 on.
LIMIT = 150
LENGTHS = (1, 2, 3, 7, 8, 9, 16, 17, 33, 64, 65, 127, 128, 129, LIMIT)

#: Settings of every file, and of each family's. Most that only a training reads are left out.
COMMON = {"initializer_range": 0.02, "vocab_size": len(TOKENS)}
BERT_KEYS = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": HIDDEN,
    "intermediate_size": WIDE,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
}
ROBERTA_KEYS = {
    **BERT_KEYS,
    "layer_norm_eps": 1e-5,
    "max_position_embeddings": LIMIT + 2,
    "pad_token_id": 1,
    "position_embedding_type": "absolute",
}
CONFIGS: dict[str, dict[str, Any]] = {
    "mpnet": {
        **BERT_KEYS,
        "architectures": ["MPNetForMaskedLM"],
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": LIMIT + 2,
        "pad_token_id": 1,
        "relative_attention_num_buckets": 32,
    },
    "distilbert": {
        "activation": "gelu",
        "architectures": ["DistilBertModel"],
        "dim": HIDDEN,
        "hidden_dim": WIDE,
        "max_position_embeddings": LIMIT,
        "n_heads": HEADS,
        "n_layers": LAYERS,
        "pad_token_id": 0,
        "tie_weights_": True,
    },
    "roberta": {**ROBERTA_KEYS, "architectures": ["RobertaModel"], "type_vocab_size": 1},
    "xlm-roberta": {
        **ROBERTA_KEYS,
        "architectures": ["XLMRobertaModel"],
        "output_past": True,
        "type_vocab_size": 2,
    },
    "camembert": {
        **ROBERTA_KEYS,
        "architectures": ["CamembertModel"],
        "bos_token_id": 5,
        "eos_token_id": 6,
        "output_past": True,
        "type_vocab_size": 1,
    },
    "electra": {
        **BERT_KEYS,
        "architectures": ["ElectraForPreTraining"],
        "embedding_size": 16,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": LIMIT,
        "pad_token_id": 0,
        "position_embedding_type": "absolute",
        "type_vocab_size": 2,
    },
    "ernie": {
        **BERT_KEYS,
        "architectures": ["ErnieForMaskedLM"],
        "layer_norm_eps": 1e-5,
        "max_position_embeddings": LIMIT,
        "pad_token_id": 0,
        "position_embedding_type": "absolute",
        "task_type_vocab_size": 3,
        "type_vocab_size": 4,
        "use_task_id": True,
    },
    "gte": {
        **BERT_KEYS,
        "architectures": ["GteModel"],
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": LIMIT,
        "pad_token_id": 1,
        "rope_theta": 100.0,
        "type_vocab_size": 1,
    },
    "jina_embeddings_v3": {
        **ROBERTA_KEYS,
        "architectures": ["JinaEmbeddingsV3Model"],
        "max_position_embeddings": LIMIT,
        "position_embedding_type": "rotary",
        "rope_parameters": {"rope_theta": 20000.0, "rope_type": "default"},
        "type_vocab_size": 1,
    },
    "nomic_bert": {
        **BERT_KEYS,
        "architectures": ["NomicBertModel"],
        "hidden_act": "silu",
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": LIMIT,
        "rope_parameters": {"rope_theta": 1000.0, "rope_type": "default"},
        "type_vocab_size": 2,
    },
}
CONFIGS["albert"] = {
    **BERT_KEYS,
    "architectures": ["AlbertModel"],
    "down_scale_factor": 1,
    "embedding_size": 16,
    "gap_size": 0,
    "hidden_act": "gelu_new",
    "inner_group_num": 1,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": LIMIT,
    "net_structure_type": 0,
    "num_hidden_groups": 1,
    "num_memory_blocks": 0,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "type_vocab_size": 2,
}
CONFIGS["t5"] = {
    "architectures": ["T5EncoderModel"],
    "d_ff": WIDE,
    "d_kv": 6,
    "d_model": HIDDEN,
    "decoder_start_token_id": 0,
    "eos_token_id": 1,
    "feed_forward_proj": "relu",
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-6,
    "n_positions": LIMIT,
    "num_heads": HEADS,
    "num_layers": LAYERS,
    "output_past": True,
    "pad_token_id": 0,
    "relative_attention_max_distance": 128,
    "relative_attention_num_buckets": 32,
}

#: The names of transformers, and those of the model's own code, with which transformers saves it.
JINA_NAMES = {
    "embeddings.LayerNorm": "emb_ln",
    "layers.": "encoder.layers.",
    "self_attn.o_proj": "mixer.out_proj",
    "post_attention_layernorm": "norm1",
    "post_mlp_layernorm": "norm2",
}
JINA_JOINED = {"mixer.Wqkv": [f"self_attn.{letter}_proj" for letter in "qkv"]}

#: The models of each family with golden vectors: their traits.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "mpnet": {
        "mean": {},
        "cls": {"pooling": ("cls",)},
        "max, tanh gelu": {"pooling": ("max",), "hidden_act": "gelu_new"},
    },
    "distilbert": {"mean": {}, "cls": {"pooling": ("cls",)}, "mean, relu": {"activation": "relu"}},
    "roberta": {
        "mean": {},
        "cls, padding 3": {
            "pooling": ("cls",),
            "pad_token_id": 3,
            "max_position_embeddings": LIMIT + 4,
        },
    },
    "xlm-roberta": {
        "mean": {},
        "cls": {"pooling": ("cls",)},
        "mean, long": {"max_position_embeddings": 2002},
    },
    "camembert": {
        "mean": {},
        "cls, padding 0": {
            "pooling": ("cls",),
            "pad_token_id": 0,
            "max_position_embeddings": LIMIT + 1,
        },
    },
    "electra": {"mean": {}, "cls, one width": {"pooling": ("cls",), "embedding_size": HIDDEN}},
    "ernie": {
        "mean": {},
        "cls, no tasks, relu": {"pooling": ("cls",), "use_task_id": False, "hidden_act": "relu"},
    },
    "gte": {
        "mean": {},
        "cls": {"pooling": ("cls",)},
        "mean, no types, silu": {"type_vocab_size": 0, "hidden_act": "silu"},
        # Heads of 8 values; rope_scaling of the type ntk computes this from 10 and a factor of 8.
        "mean, stretched": {
            "rope_theta": None,
            "rope_parameters": {"rope_theta": 80.0, "rope_type": "linear", "factor": 8 ** (2 / 8)},
        },
    },
    "jina_embeddings_v3": {
        "mean": {},
        "cls, two types, relu": {
            "pooling": ("cls",),
            "type_vocab_size": 2,
            "hidden_act": "relu",
            "rope_parameters": {"rope_theta": 10.0, "rope_type": "default"},
        },
        "mean, own names": {"renamed": JINA_NAMES},
    },
    "nomic_bert": {
        "mean": {},
        "cls, other base": {
            "pooling": ("cls",),
            "rope_parameters": {"rope_theta": 10.0, "rope_type": "default"},
        },
    },
    "albert": {
        "mean": {},
        "cls, three groups of one width": {
            "pooling": ("cls",),
            "embedding_size": HIDDEN,
            "hidden_act": "gelu",
            "num_hidden_groups": 3,
            "num_hidden_layers": 7,
        },
    },
    "t5": {"mean": {}, "cls, gated": {"pooling": ("cls",), "feed_forward_proj": "gated-gelu"}},
}


class LayerNames(NamedTuple):
    """The names of a family's weights."""

    #: The prefix of a layer, with `{}` for its number; the names up to `norms` follow it.
    layer: str
    #: The linear layers: query, key, value, out, up, down, gate.
    linear: list[str]
    norms: list[str]
    embedding_norm: str = "embeddings.LayerNorm"


LAYER_NAMES = {
    "mpnet": LayerNames(
        "encoder.layer.{}.",
        [f"attention.attn.{letter}" for letter in "qkvo"] + ["intermediate.dense", "output.dense"],
        ["attention.LayerNorm", "output.LayerNorm"],
    ),
    "distilbert": LayerNames(
        "transformer.layer.{}.",
        [f"attention.{letter}_lin" for letter in ("q", "k", "v", "out")] + ["ffn.lin1", "ffn.lin2"],
        ["sa_layer_norm", "output_layer_norm"],
    ),
    "roberta": LayerNames(
        "encoder.layer.{}.",
        [f"attention.self.{projection}" for projection in ("query", "key", "value")]
        + ["attention.output.dense", "intermediate.dense", "output.dense"],
        ["attention.output.LayerNorm", "output.LayerNorm"],
    ),
}
for _family in ("xlm-roberta", "camembert", "electra", "ernie"):
    LAYER_NAMES[_family] = LAYER_NAMES["roberta"]
LAYER_NAMES["albert"] = LayerNames(
    "encoder.albert_layer_groups.{}.albert_layers.0.",
    [f"attention.{projection}" for projection in ("query", "key", "value", "dense")]
    + ["ffn", "ffn_output"],
    ["attention.LayerNorm", "full_layer_layer_norm"],
)
#: The layer that widens the embeddings, and whether it is there for one width too.
WIDENING = {
    "albert": ("encoder.embedding_hidden_mapping_in", True),
    "electra": ("embeddings_project", False),
}
LAYER_NAMES["gte"] = LAYER_NAMES["nomic_bert"] = LayerNames(
    "layers.{}.",
    [f"self_attn.{letter}_proj" for letter in "qkvo"]
    + [f"mlp.{projection}_proj" for projection in ("up", "down", "gate")],
    ["post_attention_layernorm", "post_mlp_layernorm"],
)
LAYER_NAMES["jina_embeddings_v3"] = LayerNames(
    "layers.{}.",
    [f"self_attn.{letter}_proj" for letter in "qkvo"] + ["mlp.fc1", "mlp.fc2"],
    LAYER_NAMES["gte"].norms,
)
#: The families without a table of positions, and the starts of their layers that have biases.
ROTARY: dict[str, tuple[str, ...]] = {
    "gte": ("self_attn.", "mlp.down"),
    "jina_embeddings_v3": ("",),
    "nomic_bert": (),
}


#: The model of the golden exports, which is small because they hold its weights.
EXPORTED: dict[str, Any] = {"num_hidden_layers": 1, "max_position_embeddings": 20}


def write_encoder(
    folder: Path,
    family: str,
    *,
    pooling: Sequence[str] = ("mean",),
    renamed: Mapping[str, str] | None = None,
    **changes: Any,
) -> Path:
    """Write a sentence-transformers folder with random weights and return it.

    `changes` are keys of `config.json` that differ from the family's, and `renamed` parts of the
    weights' names.
    """
    write_model(folder, pooling=pooling)
    (folder / "sentence_bert_config.json").unlink()  # the limit is the number of positions
    config = {**COMMON, **CONFIGS[family], "model_type": family, **changes}
    write_json(folder / "config.json", config)
    tensors = _tensors(family, config)
    if renamed:
        tensors = respelled(tensors, renamed, JINA_JOINED)
    save_file(tensors, folder / "model.safetensors")
    return folder


def sequences() -> list[npt.NDArray[np.int64]]:
    """Return ids of each length, and of texts that contain the id of a padding token."""
    source = np.random.RandomState(3)
    ids = [source.randint(5, len(TOKENS), length) for length in LENGTHS]
    return [*ids, np.array([0, 1, 9, 1, 1, 12, 2]), np.array([3, 7, 3]), np.array([8, 0, 8, 2])]


def _tensors(family: str, config: dict[str, Any]) -> Tensors:
    weights = RandomWeights(len(family))
    if family == "t5":
        return _t5_tensors(config, weights)
    names = LAYER_NAMES[family]
    width = config.get("embedding_size", HIDDEN)
    weights.table("embeddings.word_embeddings", len(TOKENS), width)
    if family not in ROTARY:
        rows = config["max_position_embeddings"]
        weights.table("embeddings.position_embeddings", rows, width, scale=0.5)
    weights.norm(names.embedding_norm, width)
    for name, rows in (
        ("token_type", config.get("type_vocab_size")),
        ("task_type", config.get("use_task_id") and config["task_type_vocab_size"]),
    ):
        if rows:
            weights.table(f"embeddings.{name}_embeddings", rows, width, scale=0.1)
    widening, always = WIDENING.get(family, ("", False))
    if always or width != HIDDEN:
        weights.linear(widening, HIDDEN, width)
    if family == "mpnet":
        weights.table("encoder.relative_attention_bias", 32, HEADS)
    wide = config.get("intermediate_size", WIDE)
    sizes = [(HIDDEN, HIDDEN)] * 4 + [(wide, HIDDEN), (HIDDEN, wide), (wide, HIDDEN)]
    layers = config.get("num_hidden_layers") or config["n_layers"]
    for number in range(config.get("num_hidden_groups", layers)):
        name = names.layer.format(number)
        for layer_name, (outputs, inputs) in zip(names.linear, sizes, strict=False):
            biased = layer_name.startswith(ROTARY.get(family, ""))
            weights.linear(f"{name}{layer_name}", outputs, inputs, bias=biased)
        for norm in names.norms:
            weights.norm(f"{name}{norm}", HIDDEN)
    return weights


def _t5_tensors(config: dict[str, Any], weights: RandomWeights) -> Tensors:
    inner, block = config["num_heads"] * config["d_kv"], "encoder.block.{}.layer."
    weights.table("shared", len(TOKENS), HIDDEN)
    weights.table(f"{block.format(0)}0.SelfAttention.relative_attention_bias", 32, HEADS)
    weights.norm("encoder.final_layer_norm", HIDDEN, bias=False)
    up = ["wi"] if config["feed_forward_proj"] == "relu" else ["wi_0", "wi_1"]
    for number in range(config["num_layers"]):
        name = block.format(number)
        for layer_name, outputs, inputs in (
            *((f"0.SelfAttention.{letter}", inner, HIDDEN) for letter in "qkv"),
            ("0.SelfAttention.o", HIDDEN, inner),
            *((f"1.DenseReluDense.{matrix}", WIDE, HIDDEN) for matrix in up),
            ("1.DenseReluDense.wo", HIDDEN, WIDE),
        ):
            weights.linear(f"{name}{layer_name}", outputs, inputs, bias=False)
        for digit in "01":
            weights.norm(f"{name}{digit}.layer_norm", HIDDEN, bias=False)
    return weights
