"""The families of models: for each, small models, their vectors, and what goes through them.

`make_vectors.py` writes the vectors, and `newer_configs.json`. A new family is an entry here; one
of `ENCODERS` also needs its `CONFIGS`, `VARIANTS` and `LAYER_NAMES` in `encoder_models.py`. The
tests of `graph/architectures/test_families.py`, of its settings and of hostile folders follow. A
family that transformers lacks is an entry of `DEFINED`, which `test_definitions.py` tests.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from tests.model_compiler.goldens import (
    embedding_gemma2_model,
    encoder_models,
    gemma3_model,
    jina_bert_model,
    llama_model,
    modernbert_model,
    nomic_moe_model,
    tiny_models,
)
from tests.model_compiler.goldens.random_model import Array

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, kw_only=True)
class GoldenFamily:
    """The small models of a family."""

    #: Writes a folder; other arguments are the traits of a variant. Without any it is the first.
    write: Callable[..., Path]
    #: The models with golden vectors: the traits of each.
    variants: Mapping[str, Mapping[str, Any]]
    #: Texts for a model with a tokenizer of its own, else the token ids of each text.
    inputs: Sequence[str] | Sequence[npt.NDArray[np.int64]]
    #: Largest difference of a component from the golden vectors in float32.
    tolerance: float
    #: Lowest cosine to the golden vectors in int8. Rows of 48 values average out fewer errors than
    #: the 768 of a published model.
    cosine: float
    #: The prefix of the weights in a checkpoint with a head, and tensors of that head.
    prefix: str
    head: tuple[str, ...]
    #: The prompt that a text has if the caller names none.
    prompt: str | None = field(default=None)


@dataclass(frozen=True, kw_only=True)
class DefinedFamily:
    """The small models of a family that transformers lacks."""

    #: Writes a folder; other arguments are the traits of a variant. Without any it is the first.
    write: Callable[..., Path]
    #: Computes the vector of the token ids of one text, as the family's authors define it.
    reference: Callable[[Path, npt.NDArray[np.int64]], Array]
    #: The traits of each model.
    variants: Sequence[Mapping[str, Any]]


ENCODERS = {
    "albert": (
        "albert.",
        ("predictions.bias", "sop_classifier.classifier.bias", "albert.pooler.bias"),
    ),
    "mpnet": ("mpnet.", ("lm_head.dense.weight", "mpnet.pooler.dense.bias")),
    "distilbert": ("distilbert.", ("vocab_transform.weight",)),
    "roberta": ("roberta.", ("lm_head.bias", "roberta.pooler.dense.bias")),
    "xlm-roberta": ("roberta.", ("lm_head.layer_norm.weight", "roberta.embeddings.position_ids")),
    "camembert": ("roberta.", ("lm_head.bias", "roberta.pooler.dense.bias")),
    "electra": ("electra.", ("discriminator_predictions.dense.weight", "generator_lm_head.bias")),
    "ernie": ("ernie.", ("cls.predictions.bias", "ernie.pooler.dense.bias")),
    "gte": (
        "new.",
        (
            "classifier.weight",
            "lm_head.decoder.bias",
            "new.layers.0.self_attn.rotary_emb.inv_freq",
            "new.pooler.dense.bias",
        ),
    ),
    "jina_embeddings_v3": ("roberta.", ("lm_head.bias", "roberta.pooler.dense.bias")),
    "nomic_bert": (
        "nomic_bert.",
        ("cls.x", "nomic_bert.encoder.layers.0.attn.rotary_emb.inv_freq"),
    ),
    "t5": ("", ("lm_head.weight", "decoder.final_layer_norm.weight")),
}
FAMILIES = {
    "bert": GoldenFamily(
        write=tiny_models.write_model,
        variants=tiny_models.VARIANTS,
        inputs=tiny_models.TEXTS,
        tolerance=1e-6,
        cosine=0.99,
        prefix="bert.",
        head=("cls.seq_relationship.weight", "bert.embeddings.position_ids"),
    ),
    **{
        name: GoldenFamily(
            write=partial(embedding_gemma2_model.write_embedding_gemma2, text_only=text_only),
            variants=variants,
            inputs=embedding_gemma2_model.TEXTS,
            tolerance=1e-6,
            cosine=0.99,
            prefix="model.",
            head=("lm_head.weight",),
        )
        for name, text_only, variants in (
            ("embedding_gemma2", False, embedding_gemma2_model.VARIANTS),
            ("embedding_gemma2_text", True, embedding_gemma2_model.TEXT_VARIANTS),
        )
    },
    "gemma3_text": GoldenFamily(
        write=gemma3_model.write_gemma3,
        variants={"plain": {}},
        inputs=list(gemma3_model.sequences().values()),
        tolerance=1e-5,
        cosine=0.995,
        prefix="model.",
        head=("lm_head.weight", "model.rotary_emb.full_attention_inv_freq"),
    ),
    "modernbert": GoldenFamily(
        write=modernbert_model.write_modernbert,
        variants=modernbert_model.VARIANTS,
        inputs=list(modernbert_model.TEXTS.values()),
        tolerance=1e-6,
        cosine=0.998,
        prefix="model.",
        head=("head.dense.weight", "decoder.bias", "model.layers.0.attn.rotary_emb.inv_freq"),
    ),
    **{
        name: GoldenFamily(
            write=partial(llama_model.write_llama, family=name),
            variants=variants,
            inputs=list(llama_model.TEXTS.values()),
            tolerance=1e-6,
            cosine=0.998,
            prefix="model.",
            head=("lm_head.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"),
            prompt="document",
        )
        for name, variants in (
            ("eurobert", llama_model.EUROBERT_VARIANTS),
            ("mistral", llama_model.MISTRAL_VARIANTS),
            ("qwen2", llama_model.QWEN2_VARIANTS),
            ("qwen3", llama_model.VARIANTS),
        )
    },
    **{
        name: GoldenFamily(
            write=partial(encoder_models.write_encoder, family=name),
            variants=encoder_models.VARIANTS[name],
            inputs=encoder_models.sequences(),
            tolerance=1e-5,
            cosine=0.99,
            prefix=prefix,
            head=head,
        )
        for name, (prefix, head) in ENCODERS.items()
    },
}
#: Families whose reference vectors are computed in NumPy.
DEFINED = {
    "jina_bert": DefinedFamily(
        write=jina_bert_model.write_jina_bert,
        reference=jina_bert_model.reference,
        variants=({}, {"heads": 6}, {"heads": 6, "qk": True}),
    ),
    "nomic_bert with experts": DefinedFamily(
        write=nomic_moe_model.write_moe,
        reference=nomic_moe_model.reference,
        variants=(
            {},
            {"moe_top_k": 1},
            {"moe_normalize_expert_weights": True},
            {"moe_top_k": 3, "num_experts": 5, "moe_every_n_layers": 3},
            {"moe_top_k": 2, "num_experts": 2},
            {"moe_every_n_layers": 0},
            # Of equal experts the first is chosen.
            {"moe_top_k": 1, "twins": True},
        ),
    ),
}
#: Each model with golden vectors: its family and its variant.
VARIANTS = [(name, variant) for name, family in FAMILIES.items() for variant in family.variants]


def open_reference(folder: Path) -> Any:
    """Open a folder with sentence-transformers, which only the scripts have."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import transformer
    from transformers import AutoTokenizer

    # A composite's processors of images and sounds need further libraries. A text passes none.
    with mock.patch.object(transformer, "AutoProcessor", AutoTokenizer):
        return SentenceTransformer(str(folder), device="cpu").eval()


def write_family(folder: Path, name: str) -> Path:
    """Write the first model of a family, and return its folder."""
    return (DEFINED[name] if name in DEFINED else FAMILIES[name]).write(folder)
