"""Small random sparse encoders, and the texts that go through them.

Each is a masked language model as sentence-transformers saves it, or a Router with a table of token
weights for queries.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from tests.model_compiler.goldens.files import (
    Tensors,
    edit_json,
    read_json,
    write_json,
    write_model_settings,
    write_modules,
    write_router_files,
)
from tests.model_compiler.goldens.random_model import normal
from tests.model_compiler.goldens.reranker_models import PASSAGES, write_reranker

TEXTS = (*PASSAGES, "the time of the date and the world " * 12)

#: What each golden model has that the plain one of its family does not.
VARIANTS: dict[str, dict[str, Any]] = {
    "bert": {},
    "bert, version 5": {"old_files": True, "config": {"hidden_act": "gelu_new"}},
    "bert, sum": {"pooling": {"pooling_strategy": "sum"}},
    "bert, two logarithms": {"pooling": {"activation_function": "log1p_relu"}},
    "bert, prompts": {"prompts": {"query": "hello: ", "document": "the "}},
    "distilbert": {"family": "distilbert"},
    "gte": {"family": "gte"},
    "xlm-roberta": {"family": "xlm-roberta"},
    "modernbert": {"family": "modernbert"},
    "modernbert, other biases": {
        "family": "modernbert",
        "config": {
            "classifier_activation": "silu",
            "classifier_bias": True,
            "norm_bias": True,
            "decoder_bias": False,
        },
    },
}
ROUTER, LEXICAL = "router", "bge-m3"

SPARSE = "sentence_transformers.sparse_encoder.modules."
NEW = {
    "Transformer": "sentence_transformers.base.modules.transformer.Transformer",
    "SpladePooling": f"{SPARSE}splade_pooling.SpladePooling",
    "SparseStaticEmbedding": f"{SPARSE}sparse_static_embedding.SparseStaticEmbedding",
}
OLD = "sentence_transformers.sparse_encoder.models."
LOGITS = {
    "transformer_task": "fill-mask",
    "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
    "module_output_name": "token_embeddings",
}
WORDS = "embeddings.word_embeddings"
#: The class of the masked language model, its table, and the names of its head.
FAMILIES = {
    "bert": ("Bert", f"bert.{WORDS}", "cls.predictions.transform.{}", "cls.predictions.{}"),
    "distilbert": ("DistilBert", f"distilbert.{WORDS}", "vocab_{}", "vocab_projector.{}"),
    "gte": ("Gte", f"gte.{WORDS}", "lm_head.{}", "lm_head.decoder.{}"),
    "modernbert": ("ModernBert", "model.embeddings.tok_embeddings", "head.{}", "decoder.{}"),
    "xlm-roberta": ("XLMRoberta", f"roberta.{WORDS}", "lm_head.{}", "lm_head.{}"),
}

#: The biases that only some models of ModernBERT have, by their settings.
BIASES = {
    "classifier_bias": "head.dense.bias",
    "norm_bias": "head.norm.bias",
    "decoder_bias": "decoder.bias",
}


def write_sparse(
    folder: Path,
    *,
    family: str = "bert",
    config: Mapping[str, Any] | None = None,
    pooling: Mapping[str, Any] | None = None,
    prompts: Mapping[str, str] | None = None,
    old_files: bool = False,
) -> Path:
    """Write a sparse encoder's folder, with other keys of `config.json` and of the pooling.

    Old files are those of sentence-transformers 5, not 6. Returns the folder.
    """
    write_reranker(folder, family=family, config=config)
    settings = read_json(folder / "config.json")
    del settings["id2label"]
    settings["architectures"] = [f"{FAMILIES[family][0]}ForMaskedLM"]
    write_json(folder / "config.json", settings)
    tensors = load_file(folder / "model.safetensors")
    encoder = {
        name: value
        for name, value in tensors.items()
        if "classifier" not in name and not name.startswith(("head.", "gte.pooler."))
    }
    head = _head(family, encoder)
    for key, name in BIASES.items() if family == "modernbert" else ():
        if not settings[key]:
            del head[name]
    save_file(encoder | head, folder / "model.safetensors")
    transformer = f"{OLD}MLMTransformer" if old_files else NEW["Transformer"]
    pooling_type = f"{OLD}SpladePooling" if old_files else NEW["SpladePooling"]
    write_modules(folder, (transformer, ""), (pooling_type, "1_SpladePooling"))
    _write_settings(folder, prompts)
    limit = {"max_seq_length": 24, "do_lower_case": False}
    write_json(folder / "sentence_bert_config.json", limit if old_files else LOGITS)
    size = {"word_embedding_dimension": None} if old_files else {"embedding_dimension": None}
    values = {"pooling_strategy": "max", "activation_function": "relu", **size, **(pooling or {})}
    write_json(folder / "1_SpladePooling" / "config.json", values)
    return folder


def write_lexical(folder: Path) -> Path:
    """Write an encoder with bge-m3's sparse head, as a plain folder, and return it."""
    write_reranker(folder, family="xlm-roberta")
    settings = read_json(folder / "config.json")
    del settings["id2label"]
    write_json(folder / "config.json", {**settings, "architectures": ["XLMRobertaModel"]})
    tensors = load_file(folder / "model.safetensors")
    encoder = {
        name.removeprefix("roberta."): value
        for name, value in tensors.items()
        if not name.startswith("classifier.")
    }
    save_file(encoder, folder / "model.safetensors")
    random = np.random.default_rng(10)
    weight = random.standard_normal((1, settings["hidden_size"])).astype(np.float16)
    head = {"weight": weight, "bias": np.array([0.25], np.float16)}
    save_file(head, folder / "sparse_linear.safetensors")
    return folder


def write_sparse_router(folder: Path, *, limit: int = 30) -> Path:
    """Write a Router with a table for queries and a BERT for documents; return its folder."""
    model = write_sparse(
        folder.with_name(f"{folder.name}-document"), pooling={"activation_function": "log1p_relu"}
    )
    document, pooling, query = (
        folder / name
        for name in ("document_0_Transformer", "document_1_SpladePooling", "query_0_SparseStatic")
    )
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(model, document)
    shutil.move(document / "1_SpladePooling", pooling)
    for name in ("modules.json", "config_sentence_transformers.json"):
        (document / name).unlink()
    query.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(document / name, query / name)
    edit_json(query / "tokenizer_config.json", model_max_length=limit)
    vocabulary = read_json(document / "config.json")["vocab_size"]
    weights = np.random.default_rng(9).uniform(0, 8, vocabulary).astype(np.float32)
    weights[:5] = 0
    save_file({"weight": weights}, query / "model.safetensors")
    write_json(query / "config.json", {"frozen": False})
    _write_settings(folder, None)
    types = {
        document.name: NEW["Transformer"],
        pooling.name: NEW["SpladePooling"],
        query.name: NEW["SparseStaticEmbedding"],
    }
    structure = {"query": [query.name], "document": [document.name, pooling.name]}
    write_router_files(folder, types, structure)
    return folder


def _head(family: str, encoder: Tensors) -> Tensors:
    random = np.random.default_rng(8)
    _, embeddings, inner, outer = FAMILIES[family]
    table = encoder[f"{embeddings}.weight"]
    rows, size = table.shape
    dense, norm = {
        "bert": ("dense", "LayerNorm"),
        "distilbert": ("transform", "layer_norm"),
        "gte": ("dense", "layer_norm"),
        "modernbert": ("dense", "norm"),
        "xlm-roberta": ("dense", "layer_norm"),
    }[family]
    shapes: dict[str, tuple[int, ...]] = {
        inner.format(f"{dense}.weight"): (size, size),
        inner.format(f"{dense}.bias"): (size,),
        inner.format(f"{norm}.weight"): (size,),
        inner.format(f"{norm}.bias"): (size,),
        outer.format("bias"): (rows,),
    }
    return {name: normal(random, *shape, scale=0.25) for name, shape in shapes.items()}


def _write_settings(folder: Path, prompts: Mapping[str, str] | None) -> None:
    prompts = prompts or {"query": "", "document": ""}
    write_model_settings(folder, prompts, model_type="SparseEncoder", similarity_fn_name="dot")
