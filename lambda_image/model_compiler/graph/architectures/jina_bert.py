"""Jina BERT (Günther et al., 2023, https://arxiv.org/abs/2310.19923): jina-embeddings-v2.

A BERT with a gated feed-forward layer and without positions: attention's scores fall with the
distance of two tokens. The model's own code, which the compiler never runs, has the `model_type`
"bert". The models for other languages and for code also normalize queries and keys, and normalize
the attention's result with the layer's input a second time.
"""

from dataclasses import replace

from onnx import TensorProto

from model_compiler.files.config import ConfigFile
from model_compiler.graph.architectures import bert
from model_compiler.graph.attention import LOWEST, linear_bias
from model_compiler.graph.bases.family import has_own_code, size_of_heads
from model_compiler.graph.bases.post_norm import (
    Normalized,
    PostNormConfig,
    PostNormEncoder,
    read_numbers,
)
from model_compiler.graph.quantization import Floats

NAMES = replace(
    bert.NAMES["bert"], up=("mlp.gated_layers",), gate=0, down="mlp.wo", output_norm="mlp.layernorm"
)
#: Those of jina-embeddings-v2-base-de, -es, -zh and -code.
QK_NAMES = replace(
    NAMES,
    up=("mlp.up_gated_layer",),
    gate=1,
    down="mlp.down_layer",
    second_norm="layer_norm_1",
    output_norm="layer_norm_2",
)
#: The class of the model's own code.
OWN = "JinaBertModel"
#: Tokens of a text. A bias and the scores are 8 bytes for each head and pair of tokens: with 12
#: heads, 0.4 GB here, and 6.4 GB at the 8,192 of `config.json`.
LIMIT = 2048


def parse(config: ConfigFile) -> PostNormConfig:
    """Parse a `config.json` of model_type `bert`: with the class `JinaBertModel`, or BERT's."""
    if not has_own_code(config, OWN):
        return bert.parse(config)
    # A classifier's pooling and a sparse head of such a model are not known.
    config.require("architectures", [OWN], ["JinaBertForMaskedLM"])
    config.require("position_embedding_type", "alibi")
    config.string("feed_forward_type")
    config.require("feed_forward_type", "geglu")
    # Implementations of the same, and a limit that the tokenizer states too.
    config.require("hidden_act", "gelu")
    config.ignore(frozenset({"attn_implementation", "emb_pooler", "model_max_length"}))
    size_of_heads(config)
    return PostNormConfig(
        encoder=_Encoder,
        name="jina_bert",
        names=(NAMES, QK_NAMES),
        **read_numbers(config, "max_positions"),
        activation="gelu",
        max_positions=min(config.integer("max_position_embeddings"), LIMIT),
    )


#: That of both models.
FAMILY = replace(bert.FAMILIES["bert"], parse=parse, own_code=True)


class _Encoder(PostNormEncoder[PostNormConfig]):
    def _start(self) -> Normalized:
        self._mask = self._builder.op.Cast("attention_mask", to=TensorProto.INT32)
        self._bias_by_distance = linear_bias(self._builder, self._config.heads)
        return self._words_and_types()

    def _attended(self, projected: str, layer: str, biases: tuple[Floats, Floats] | None) -> str:
        builder, size = self._builder, self._config.hidden_size
        normalized = "qk" if self._names is QK_NAMES else ""
        # Without this, a key's bias adds the same to all scores of a query.
        added = (biases or ())[: 2 if normalized else 1]
        tensors = self._with_biases(builder.split(projected, [size] * 3), layer, added)
        for index, name in enumerate(normalized):  # those of all heads together
            norm = f"{layer}attention.self.layer_norm_{name}"
            gain, shift = (self._take(f"{norm}.{end}", size) for end in ("weight", "bias"))
            tensors[index] = self._layer_norm(tensors[index], norm, gain, shift)
        return builder.microsoft.MultiHeadAttention(
            *tensors,
            "",
            self._mask,
            self._bias_by_distance,
            num_heads=self._config.heads,
            mask_filter_value=LOWEST,
        )
