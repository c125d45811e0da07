"""The encoder of `post_norm.py` with rotary positions: Nomic BERT and GTE."""

from dataclasses import dataclass
from typing import TypeVar

from model_compiler.graph.attention import FullAttention
from model_compiler.graph.bases.encoder import rotary_tables
from model_compiler.graph.bases.post_norm import Names, PostNormConfig, PostNormEncoder

#: The names of weights in transformers' classes; a family adds its prefixes and heads.
NAMES = Names(
    models=(),
    heads=(),
    layer="layers.{}.",
    projections=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    out="self_attn.o_proj",
    attention_norm="post_attention_layernorm",
    up=("mlp.gate_proj", "mlp.up_proj"),
    gate=0,
    down="mlp.down_proj",
    output_norm="post_mlp_layernorm",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RotaryConfig(PostNormConfig):
    """The configuration of an encoder with rotary positions."""

    rope_base: float
    #: By how much all wavelengths of the rotary embedding are longer.
    rope_stretch: float = 1.0


Config = TypeVar("Config", bound=RotaryConfig)


class RotaryEncoder(PostNormEncoder[Config]):
    """Builds the graph of one encoder."""

    def _start(self) -> str:
        config = self._config
        self._head_size = config.hidden_size // config.heads
        self._attend = FullAttention.with_mask(
            self._builder, heads=config.heads, head_size=self._head_size
        )
        self._rope = rotary_tables(
            self._builder,
            base=config.rope_base,
            stretch=config.rope_stretch,
            head_size=self._head_size,
            positions=config.max_positions,
            name="rope",
            by_row=True,
        )
        return self._words_and_types()

    def _attended(self, projected: str, layer: str) -> str:
        if self._config.biases:
            projected = self._builder.op.Add(projected, self._projections_bias(layer))
        query, key, value = self._builder.split(projected, [self._config.hidden_size] * 3)
        query, key = (
            self._rotated(part, self._rope, heads=self._config.heads, head_size=self._head_size)
            for part in (query, key)
        )
        return self._attend.add(query, key, value)
