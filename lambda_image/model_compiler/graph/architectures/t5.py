"""T5's encoder (Raffel et al., 2019, https://arxiv.org/abs/1910.10683): sentence-t5, gtr.

Positions are a bias by the distance of two tokens, which all layers share, and scores are not
divided. Weights have the names of transformers' T5EncoderModel; a decoder next to it is ignored.
"""

from collections.abc import Mapping
from typing import ClassVar

from onnx import TensorProto

from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph.attention import BUCKETS, FARTHEST, LOWEST, relative_bias
from model_compiler.graph.bases.family import Family
from model_compiler.graph.bases.pre_norm import PreNormConfig, PreNormEncoder, PreNormNames

#: The feed-forward blocks of T5 and of its version 1.1: the activation, and the names of the layers
#: to the wide side. transformers takes another form of GELU for "gated-gelu" than its name says.
FEED_FORWARD = {
    "relu": ("relu", ("layer.1.DenseReluDense.wi",)),
    "gated-gelu": ("gelu_new", ("layer.1.DenseReluDense.wi_0", "layer.1.DenseReluDense.wi_1")),
}
#: The number of positions of the published models, if the file has none. transformers reads none.
DEFAULT_POSITIONS = 512


def parse(config: ConfigFile) -> PreNormConfig:
    """Parse a `config.json` of model_type `t5`; see `Family.parse`."""
    feed_forward = config.string("feed_forward_proj", "relu")
    if feed_forward not in FEED_FORWARD:
        raise UnsupportedModelError(
            f"{config.path}: feed_forward_proj is {feed_forward!r}; the compiler can express "
            f"{' and '.join(map(repr, FEED_FORWARD))}."
        )
    activation, up = FEED_FORWARD[feed_forward]
    # transformers writes both, and reads them back.
    config.require("dense_act_fn", activation, None)
    config.require("is_gated_act", len(up) > 1, None)
    config.require("relative_attention_num_buckets", BUCKETS, None)
    config.require("relative_attention_max_distance", FARTHEST, None)
    width, heads = config.integer("d_model"), config.integer("num_heads")
    return PreNormConfig(
        encoder=_Encoder,
        name="t5",
        names=PreNormNames(
            table="shared",
            layer="encoder.block.{}.",
            attention_norm="layer.0.layer_norm",
            projections=(
                "layer.0.SelfAttention.q",
                "layer.0.SelfAttention.k",
                "layer.0.SelfAttention.v",
            ),
            out="layer.0.SelfAttention.o",
            output_norm="layer.1.layer_norm",
            up=up,
            down="layer.1.DenseReluDense.wo",
            final_norm="encoder.final_layer_norm",
        ),
        vocabulary_size=config.integer("vocab_size"),
        hidden_size=width,
        width=width,
        intermediate_size=config.integer("d_ff"),
        layers=config.integer("num_layers"),
        heads=heads,
        key_value_heads=heads,
        head_size=config.integer("d_kv"),
        activation=activation,
        norm_epsilon=config.number("layer_norm_epsilon"),
        max_positions=config.integer("n_positions", DEFAULT_POSITIONS),
    )


FAMILY = Family(
    parse=parse,
    harmless={
        "dropout": "dropout_rate",
        "the decoder, and how its outputs are scaled": """
            num_decoder_layers scale_decoder_outputs""",
    },
    encoder_decoder=True,
)


class _Encoder(PreNormEncoder[PreNormConfig]):
    first_weight = "encoder.final_layer_norm.weight"
    harmless: ClassVar[Mapping[str, str]] = {"the decoder, and its head": "decoder.* lm_head.*"}

    def _hidden_state(self) -> str:
        hidden = super()._hidden_state()
        table = f"{self._prefix}{self._config.names.table}.weight"
        self._weights.check_copy(f"{self._prefix}encoder.embed_tokens.weight", table)
        return hidden

    def _start(self) -> None:
        config = self._config
        # 1 for a token, 0 for padding, as MultiHeadAttention takes it.
        self._mask = self._builder.op.Cast("attention_mask", to=TensorProto.INT32)
        name = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        table = self._take(name, BUCKETS, config.heads)
        self._bias = relative_bias(self._builder, table, config.max_positions)

    def _attended(self, query: str, key: str, value: str, layer: str) -> str:  # noqa: ARG002
        return self._builder.microsoft.MultiHeadAttention(
            query,
            key,
            value,
            "",
            self._mask,
            self._bias,
            num_heads=self._config.heads,
            scale=1.0,
            mask_filter_value=LOWEST,
        )
