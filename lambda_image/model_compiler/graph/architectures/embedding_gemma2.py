"""EmbeddingGemma 2 (https://huggingface.co/google/embeddinggemma-2): its model of texts.

The published folder is a composite with towers for images and audio, which are not read. Weights
have the names of transformers' EmbeddingGemma2TextModel. The reference implementation is
`transformers/models/embedding_gemma2/modeling_embedding_gemma2.py`.
"""

import glob
from dataclasses import dataclass

import numpy as np

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph.attention import Blocks, FullAttention, whole_blocks
from model_compiler.graph.bases.both_norms import BothNormsEncoder
from model_compiler.graph.bases.encoder import (
    ROTARY_BUFFERS,
    Architecture,
    activate,
    read_activation,
    rotary_tables,
)
from model_compiler.graph.bases.family import (
    FULL,
    SLIDING,
    Family,
    check_halves,
    require_encoder,
    rope_bases_by_kind,
    sliding_layers,
)
from model_compiler.graph.quantization import Floats, Rows, dequantize, embedding, matmul

#: The defaults of transformers' EmbeddingGemma2TextConfig.
DEFAULT_ROPE_BASES = {SLIDING: 10_000.0, FULL: 1_000_000.0}
DEFAULT_SLIDING_PATTERN = 6
DEFAULT_FULL_SIZE, DEFAULT_FULL_SHARED = 512, 1
#: Tokens of a text. The model's card states it; `config.json` has the 262,144 of Gemma 4.
LIMIT = 8192
#: Placeholders of an image, a video and a sound, with the defaults of their ids.
PLACEHOLDERS = {"image_token_id": 258_880, "video_token_id": 258_884, "audio_token_id": 258_881}
TEXT_MODEL = "embedding_gemma2_text"
PROJECTION = "embedding_projection.weight"
TOWERS = ("vision_tower.*", "embed_vision.*", "audio_tower.*", "embed_audio.*")


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of the layers of one kind."""

    #: Width of a head.
    size: int
    #: Key and value heads; each is shared by as many query heads.
    shared: int
    rope_base: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingGemma2Config(Architecture):
    """The `config.json` of an EmbeddingGemma 2."""

    #: Width of the residual stream; `hidden_size` is that of the projection at the end.
    width: int
    #: Width of the signal that each layer has from a token's embedding.
    signal_size: int
    #: Query heads of each layer.
    query_heads: int
    #: The heads of sliding layers, if there are any, and of full ones.
    window: Heads | None
    full: Heads
    #: Number of tokens to each side that a token attends to in a sliding layer.
    reach: int
    #: Whether the attention of each layer is limited to the window.
    sliding: tuple[bool, ...]
    #: Tokens that have the embedding of the padding token: those of other inputs than texts.
    placeholders: tuple[int, ...]
    padding_id: int


def parse(config: ConfigFile) -> EmbeddingGemma2Config:
    """Parse a `config.json` of model_type `embedding_gemma2` or `embedding_gemma2_text`."""
    if config.string("model_type") == TEXT_MODEL:
        return _parse_text(config, placeholders=())
    ids = {
        key: config.integer(key, default, least=0)
        for key, default in PLACEHOLDERS.items()
        if key not in config or config.has(key)
    }
    config.ignore(frozenset(PLACEHOLDERS))
    text = config.inner("text_config")
    text.require("model_type", TEXT_MODEL)
    require_encoder(text)
    parsed = _parse_text(text, placeholders=tuple(ids.values()))
    text.done("config.json")
    return parsed


def _parse_text(config: ConfigFile, *, placeholders: tuple[int, ...]) -> EmbeddingGemma2Config:
    query_heads = config.integer("num_attention_heads")
    every = config.integer("sliding_window_pattern", DEFAULT_SLIDING_PATTERN)
    layers = config.integer("num_hidden_layers")
    sliding = sliding_layers(config, layers, every=every, full=every - 1)
    sliding = (*sliding[:-1], False)  # transformers lets the last one attend fully
    window, full = _heads(config, sliding)
    for heads in filter(None, (window, full)):
        check_halves(config, heads.size)
        if query_heads % heads.shared:
            raise SourceError(
                f"{config.path}: num_attention_heads must be a multiple of num_key_value_heads of "
                f"each layer; found {query_heads} and {heads.shared}."
            )
    config.require("attention_bias", False)
    return EmbeddingGemma2Config(
        encoder=_Encoder,
        projection=PROJECTION,
        name="embedding_gemma2",
        vocabulary_size=config.integer("vocab_size"),
        hidden_size=config.integer("embedding_dim"),
        max_positions=min(config.integer("max_position_embeddings"), LIMIT),
        width=config.integer("hidden_size"),
        intermediate_size=config.integer("intermediate_size"),
        signal_size=config.integer("hidden_size_per_layer_input"),
        activation=read_activation(config, "hidden_activation"),
        norm_epsilon=config.number("rms_norm_eps"),
        query_heads=query_heads,
        window=window,
        full=full,
        reach=config.integer("sliding_window"),
        sliding=sliding,
        placeholders=placeholders,
        padding_id=config.integer("pad_token_id", 0, least=0) if placeholders else 0,
    )


def _heads(config: ConfigFile, sliding: tuple[bool, ...]) -> tuple[Heads | None, Heads]:
    """Return the heads of sliding and of full layers, which `per_layer_config` may change."""
    sizes_by_layer = [(config.integer("head_dim"), config.integer("num_key_value_heads"))] * len(
        sliding
    )
    wide = (
        config.integer("global_head_dim", DEFAULT_FULL_SIZE),
        config.integer("num_global_key_value_heads", DEFAULT_FULL_SHARED),
    )
    if "per_layer_config" not in config:
        sizes_by_layer = [
            own if slides else wide for own, slides in zip(sizes_by_layer, sliding, strict=True)
        ]
    elif config.optional("per_layer_config") is not None:
        changes = config.inner("per_layer_config")
        for layer in changes:
            if not layer.isdecimal() or int(layer) >= len(sliding):
                changes.fail(layer, f"a number below num_hidden_layers = {len(sliding)}", layer)
            change = changes.inner(layer)
            size, shared = sizes_by_layer[int(layer)]
            sizes_by_layer[int(layer)] = (
                change.integer("head_dim", size),
                change.integer("num_key_value_heads", shared),
            )
            change.done()
    for windowed in (True, False):
        sizes = {
            sizes
            for sizes, slides in zip(sizes_by_layer, sliding, strict=True)
            if slides == windowed
        }
        if len(sizes) > 1:
            raise UnsupportedModelError(
                f"{config.path}: per_layer_config must give one head_dim and num_key_value_heads "
                f"to all sliding layers, and to all full ones; found {sorted(sizes)}."
            )
    bases = rope_bases_by_kind(config, config.optional("rope_parameters") or {}, DEFAULT_ROPE_BASES)
    window = Heads(*sizes_by_layer[sliding.index(True)], bases[True]) if any(sliding) else None
    return window, Heads(*sizes_by_layer[-1], bases[False])


HARMLESS = {
    "the towers and tokens of other inputs than texts": """
        audio_config boa_token_id boi_token_id eoa_token_index eoi_token_id vision_config
        vision_soft_tokens_per_image"""
}
FAMILIES = {
    "embedding_gemma2": Family(parse=parse, harmless=HARMLESS),
    TEXT_MODEL: Family(parse=parse),
}


class _Encoder(BothNormsEncoder[EmbeddingGemma2Config]):
    first_weight = "embed_tokens.weight"
    harmless = ROTARY_BUFFERS

    @property
    def prefixes(self) -> tuple[str, ...]:
        """A composite has the model of texts one level down."""
        return ("", "language_model.", "model.", "model.language_model.")

    @property
    def heads(self) -> str:
        """A composite has its towers next to the model of texts."""
        above = glob.escape(self._prefix.removesuffix("language_model."))
        towers = " ".join(f"{above}{tower}" for tower in TOWERS)
        return f"{towers} lm_head.*"

    @property
    def _width(self) -> int:
        return self._config.width

    def _hidden_state(self) -> str:
        config, op = self._config, self._builder.op
        window = config.window or config.full
        self._blocks = blocks = Blocks(
            self._builder,
            reach=config.reach,
            shared_by=config.query_heads // window.shared,
            width=window.size,
        )
        # The heads that share one lie next to it, as a further dimension in front of the blocks.
        self._window_bias = op.Unsqueeze(blocks.bias, self._int64(1))
        split = op.Slice(blocks.queries_shape, self._int64(1), self._int64(4))
        self._queries_shape = op.Concat(self._int64(0, 0), split, axis=0)
        self._begin(blocks.ids)
        self._rope = {
            slides: rotary_tables(
                self._builder,
                base=heads.rope_base,
                head_size=heads.size,
                positions=whole_blocks(config.max_positions),
                name="rope.sliding" if slides else "rope.full",
                by_row=True,
            )
            for slides, heads in ((True, config.window), (False, config.full))
            if heads
        }
        tokens = op.Concat(blocks.batch, blocks.padded, axis=0)
        heads, size = config.query_heads, config.full.size
        column = op.Concat(tokens, self._int64(heads, 1), axis=0)
        self._full = FullAttention(
            self._builder,
            heads=heads,
            shape=op.Concat(tokens, self._int64(heads, size), axis=0),
            column=column,
            key_bias=blocks.key_bias,
            scale=1.0,
        )
        x = embedding(
            self._builder, blocks.ids, self._table(), name="tokens", scale=config.width**0.5
        )
        signals, sources = self._signals(), self._quantized(x, config.width)
        for layer, slides in enumerate(config.sliding):
            name = f"layers.{layer}."
            hidden = self._attention(x, name, slides=slides, first=layer == 0)
            x = op.Add(x, self._normalized(hidden, f"{name}post_attention_layernorm.weight"))
            rows = self._read(x, f"{name}pre_feedforward_layernorm.weight")
            hidden = self._feed_forward(rows, f"{name}mlp.", end="")
            x = op.Add(x, self._normalized(hidden, f"{name}post_feedforward_layernorm.weight"))
            hidden = self._signaled(x, sources, signals[layer], f"{name}ple_block.")
            scalar = self._builder.constant(self._take(f"{name}layer_scalar", 1), np.float32)
            x = self._builder.end_layer(op.Mul(op.Add(x, hidden), scalar))
        hidden = self._normalized(x, "norm.weight")
        self._builder.weight(PROJECTION, self._take(PROJECTION, config.hidden_size, config.width).T)
        # Remove the padding that the blocks needed.
        return op.Slice(hidden, self._int64(0), blocks.tokens, self._int64(1))

    def _table(self) -> Floats:
        config = self._config
        table = self._take("embed_tokens.weight", config.vocabulary_size, config.width)
        for token in config.placeholders:
            if token < len(table):
                table[token] = table[config.padding_id]
        return table

    def _signals(self) -> list[Floats]:
        """Return for each layer the weight that takes a token's embedding to the layer's signal."""
        config, layers = self._config, len(self._config.sliding)
        name, size = "ple.per_layer_model_projection.weight", config.signal_size
        weight = self._take(name, layers * size, config.width)
        self._signal_gain = self._builder.weight(
            "ple.per_layer_projection_norm.weight",
            self._take("ple.per_layer_projection_norm.weight", size),
        )
        return np.split(weight * np.float32(config.width**-0.5), layers)

    def _attention(self, x: str, layer: str, *, slides: bool, first: bool) -> str:
        """Attend, and return the result without its scales, before its normalization."""
        config, op = self._config, self._builder.op
        heads = config.window if slides and config.window else config.full
        name, size = f"{layer}self_attn.", heads.size
        rows = self._read(x, f"{layer}input_layernorm.weight")
        gains = {
            "q": self._take(f"{name}q_norm.weight", size),
            "k": self._take(f"{name}k_norm.weight", size),
            "v": np.ones(size, np.float32),
        }
        counts = {"q": config.query_heads, "k": heads.shared, "v": heads.shared}
        multiply = self._scaled if first else self._unscaled
        query, key, value = (
            self._by_root_mean_square(
                op.Reshape(
                    multiply(rows, f"{name}{letter}_proj.weight", counts[letter] * size),
                    self._int64(0, 0, -1, size),
                ),
                self._builder.weight(f"{name}{letter}_norm.weight", gain),
            )
            for letter, gain in gains.items()
        )
        query, key = (
            self._rotated(
                op.Reshape(rows, self._int64(0, 0, -1)),
                self._rope[slides],
                heads=count,
                head_size=size,
                places=self._blocks.positions,
            )
            for rows, count in ((query, config.query_heads), (key, heads.shared))
        )
        attend = self._within_window if slides else self._to_all
        mixed = attend(query, key, value, heads)
        return self._attention_output(mixed, f"{name}o_proj.weight", config.query_heads * size)

    def _within_window(self, query: str, key: str, value: str, heads: Heads) -> str:
        op, blocks, int64 = self._builder.op, self._blocks, self._int64
        query, key, value = (
            op.Transpose(op.Reshape(tensor, int64(0, 0, heads.shared, -1)), perm=[0, 2, 1, 3])
            for tensor in (query, key, value)
        )
        key, value = (op.Gather(tensor, blocks.keys, axis=2) for tensor in (key, value))
        query = op.Reshape(query, self._queries_shape)
        scores = self._builder.microsoft.FusedMatMul(query, key, transB=1)
        scores = op.Add(scores, self._window_bias)
        mixed = op.MatMul(op.Softmax(scores, axis=-1), value)
        width = self._config.query_heads * heads.size
        padded_shape = op.Concat(int64(0, 0), blocks.padded, int64(width // heads.shared), axis=0)
        mixed = op.Transpose(op.Reshape(mixed, padded_shape), perm=[0, 2, 1, 3])
        return op.Reshape(mixed, int64(0, 0, -1))

    def _to_all(self, query: str, key: str, value: str, heads: Heads) -> str:
        times = self._config.query_heads // heads.shared
        key, value = (
            self._repeated(tensor, times, heads.size, heads=heads.shared) for tensor in (key, value)
        )
        return self._full.add(query, key, value)

    def _signaled(self, x: str, sources: Rows, signal: Floats, name: str) -> str:
        """Let the stream choose from the layer's signal, which depends on the token alone."""
        config, builder = self._config, self._builder
        size, width = config.signal_size, config.width
        product = matmul(builder, sources, signal, name=f"{name}signal")
        signals = dequantize(builder, product, sources)
        signals = self._by_root_mean_square(signals, self._signal_gain)
        rows = self._quantized(x, width)
        gate = self._scaled(rows, f"{name}per_layer_input_gate.weight", size)
        chosen = builder.op.Mul(activate(builder, gate, config.activation), signals)
        rows = self._quantized(chosen, size)
        # With the scale: without a signal, they are rows of zeros.
        written = self._scaled(rows, f"{name}per_layer_projection.weight", width, size)
        return self._normalized(written, f"{name}post_per_layer_input_norm.weight")
