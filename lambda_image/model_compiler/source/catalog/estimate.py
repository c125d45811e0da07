"""The times of a model that was not measured, from the sizes in its `config.json`."""

from collections.abc import Mapping
from typing import Any

#: The ratios of every static model that was measured: it reads a row for each token.
STATIC = (0.1, 0.02)
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
#: By the tokens of a text, the part of the reference's time that follows the elements; the rest
#: follows the products. Fitted to the measured shapes of BERT, which it gives to 13%.
_OF_ELEMENTS = {32: 0.84, 256: 0.58}
#: Measured over estimated times of the families that this does not fit: the first computes more
#: for a short text besides its products, the others less.
_FACTORS = {
    "eurobert": (1.18, 0.9),
    "distilbert": (1.0, 0.8),
    "gemma3_text": (0.6, 0.7),
    "modernbert": (0.79, 0.75),
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
    factors = _FACTORS.get(str(family), (1.0, 1.0))
    short, long = (
        factor
        * (
            part * layers * width / _ELEMENTS
            + (1 - part) * (layers * attention + times * feed_forward) / _PRODUCTS
        )
        for part, factor, times in zip(
            _OF_ELEMENTS.values(), factors, _feed_forwards(config, layers), strict=True
        )
    )
    return round(short, 2), round(long, 2)


def _is_gated(config: Mapping[str, Any]) -> bool:
    """Return whether feed-forward layers have a third matrix, which some families have at times."""
    if config.get("activation_function") == "gelu":  # Nomic BERT with experts
        return False
    kind = str(config.get("feed_forward_type") or config.get("feed_forward_proj"))
    return config.get("model_type") in _GATED or kind in {"geglu", "gated-gelu"}


def _feed_forwards(config: Mapping[str, Any], layers: int) -> tuple[int, int]:
    """Return how many feed-forward layers a short text reads, and each token of a long one takes.

    They differ in layers of experts. The tokens of a short text take nearly all of them together,
    and the time is that of reading their weights.
    """
    experts, every = config.get("num_experts"), config.get("moe_every_n_layers")
    if not experts or not every:
        return layers, layers
    more = len(range(1, layers, every))
    return layers + more * (experts - 1), layers + more * (config.get("moe_top_k", 1) - 1)


def _first(config: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    return next((config[key] for key in keys if key in config), None)
