"""The times of a model that was not measured, from the sizes in its `config.json`."""

from collections.abc import Mapping
from typing import Any

#: The ratios of every static model that was measured: it reads a row for each token.
STATIC = (0.03, 0.01)
#: The keys of each size: DistilBERT, T5 and Nomic BERT have their own names.
_LAYERS = ("num_hidden_layers", "n_layers", "num_layers", "n_layer")
_WIDTH = ("hidden_size", "dim", "d_model", "n_embd")
_HEADS = ("num_attention_heads", "n_heads", "num_heads", "n_head")
_INNER = ("intermediate_size", "hidden_dim", "d_ff", "n_inner")
#: Families with a third matrix in their feed-forward layers.
_GATED = {
    "embedding_gemma2_text",
    "eurobert",
    "gemma3_text",
    "gte",
    "mistral",
    "modernbert",
    "new",
    "nomic_bert",
    "qwen2",
    "qwen3",
}
#: Layers times width, and multiplications for a token, of the reference: all-MiniLM-L6-v2.
_ELEMENTS, _PRODUCTS = 6 * 384, 6 * (4 * 384**2 + 2 * 384 * 1536)
#: The part of the reference's time that follows the elements; the rest follows the products.
#: Fitted to the measured shapes of BERT, which it gives to 10%.
_OF_ELEMENTS = 0.58
#: Measured over estimated times of the families that this does not fit, for 32 and 256 tokens.
_FACTORS = {
    "albert": (0.87, 0.98),
    "eurobert": (0.88, 0.89),
    "gemma3_text": (0.69, 0.73),
    "modernbert": (0.82, 0.87),
    "qwen3": (0.79, 1.0),
    "t5": (0.85, 0.88),
}


def estimate(config: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the times of texts with 32 and 256 tokens, as multiples of the reference's.

    None if the sizes are missing; the family is not checked.
    """
    if config.get("model_type") == "model2vec":
        return STATIC
    if isinstance(config.get("text_config"), Mapping):
        # Of a model for images too, only the language model is served.
        config = config["text_config"]
    sizes = [_first(config, keys) for keys in (_LAYERS, _WIDTH, _HEADS, _INNER)]
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return None
    layers, width, heads, inner = sizes
    family = config.get("model_type")
    head = config.get("head_dim") or config.get("d_kv") or width // heads
    groups = config.get("num_key_value_heads") or heads
    attention = 2 * width * head * (heads + groups)
    feed_forward = (2 + _is_gated(config)) * width * inner
    products = layers * attention + _feed_forwards(config, layers) * feed_forward
    time = _OF_ELEMENTS * layers * width / _ELEMENTS + (1 - _OF_ELEMENTS) * products / _PRODUCTS
    short, long = _FACTORS.get(str(family), (1.0, 1.0))
    return round(short * time, 2), round(long * time, 2)


def _is_gated(config: Mapping[str, Any]) -> bool:
    """Return whether feed-forward layers have a third matrix, which some families have at times."""
    if config.get("activation_function") == "gelu":  # Nomic BERT with experts
        return False
    kind = str(config.get("feed_forward_type") or config.get("feed_forward_proj"))
    return config.get("model_type") in _GATED or kind in {"geglu", "gated-gelu"}


def _feed_forwards(config: Mapping[str, Any], layers: int) -> int:
    """Return the number of feed-forward layers that a token takes the time of.

    A layer of experts counts as the token's own experts and one more: the others' weights are read.
    """
    experts, every = config.get("num_experts"), config.get("moe_every_n_layers")
    if not experts or not every:
        return layers
    own: int = config.get("moe_top_k", 1)
    return layers + len(range(1, layers, every)) * own


def _first(config: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((config[key] for key in keys if key in config), None)
