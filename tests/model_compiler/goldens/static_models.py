"""Small random static models, as sentence-transformers and as model2vec write them.

The tables come from a seeded generator, so that the script that makes golden values and the tests
that are held to them build the same folders.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tests.model_compiler.goldens.files import (
    Tensors,
    edit_json,
    write_json,
    write_model_settings,
    write_modules,
)
from tests.model_compiler.goldens.tiny_models import MODULES, NEW_MODULES, TOKENS, write_model

WIDTH = 24
#: Rows of a table that tokens share.
SHARED = 20
#: The limit in tokens of the models that state one.
LIMIT = 40

TEXTS = (
    "a",
    "hello world",
    "Parse the date, then the time!",
    "x1 y2 z3? \u6771\u4eac \U0001f600",
    "[CLS] is a token of the text [SEP]",
    "the time of the date " * 3,
    "the time of the date is over the limit of this model and has to be cut somewhere " * 3,
)
PROMPT = "parse: "

#: What each golden model of sentence-transformers has.
SENTENCE_TRANSFORMERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "normalized": {"normalized": True},
    "old files": {"normalized": True, "new_files": False},
    "truncated": {"limit": LIMIT},
    "shared rows": {"shared": True, "normalized": True},
}
#: What each golden model of model2vec has.
MODEL2VEC: dict[str, dict[str, Any]] = {
    "model2vec": {"config": {"normalize": True, "max_length": LIMIT}},
    "model2vec, default limit": {"config": {"normalize": False}},
    "model2vec, no limit": {"config": {"max_length": None}},
    "model2vec, shared rows": {"config": {"normalize": True}, "shared": True},
}


def write_sentence_transformers(
    folder: Path,
    *,
    normalized: bool = False,
    new_files: bool = True,
    limit: int | None = None,
    shared: bool = False,
) -> Path:
    """Write a folder with a StaticEmbedding and return it.

    New files are those of sentence-transformers 6, not 3; `limit` is the truncation in
    `tokenizer.json`. Shared are the rows of a model2vec model.
    """
    types = _TYPES if new_files else {kind: MODULES + kind for kind in _TYPES}
    encoder = "" if new_files else "0_StaticEmbedding"
    modules = [
        ("StaticEmbedding", encoder),
        *([("Normalize", "1_Normalize")] if normalized else []),
    ]
    _write_tokenizer(folder / encoder, limit)
    tensors = static_tensors(shared=shared)
    if not shared:
        tensors = {"embedding.weight": tensors["embeddings"]}
    save_file(tensors, folder / encoder / "model.safetensors")
    write_modules(folder, *((types[kind], path) for kind, path in modules))
    prompts = {"query": PROMPT, "document": ""}
    write_model_settings(folder, prompts, similarity_fn_name="cosine")
    return folder


def write_model2vec(
    folder: Path, *, config: dict[str, Any] | None = None, shared: bool = False
) -> Path:
    """Write a folder of model2vec without a `modules.json` and return it.

    `config` has the keys of `config.json` that differ. Tokens may share rows, with a factor each.
    """
    _write_tokenizer(folder, None)
    save_file(static_tensors(shared=shared), folder / "model.safetensors")
    values = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "tokenizer_name": "random",
        "apply_pca": WIDTH,
        "apply_zipf": True,
        "hidden_dim": WIDTH,
        "seq_length": 1000000,
        **(config or {}),
    }
    write_json(folder / "config.json", values)
    return folder


def static_tensors(*, shared: bool, seed: int = 0) -> Tensors:
    """Return a random table under the names of model2vec."""
    random = np.random.default_rng(seed)
    table = random.standard_normal((SHARED if shared else len(TOKENS), WIDTH)).astype(np.float32)
    if not shared:
        return {"embeddings": table}
    return {
        "embeddings": table,
        "mapping": random.integers(0, SHARED, len(TOKENS)).astype(np.int32),
        "weights": random.uniform(0.1, 3, len(TOKENS)).astype(np.float32),
    }


_TYPES = {
    "StaticEmbedding": (
        "sentence_transformers.sentence_transformer.modules.static_embedding.StaticEmbedding"
    ),
    "Normalize": NEW_MODULES["Normalize"],
}


def _write_tokenizer(folder: Path, limit: int | None) -> None:
    """Write the tokenizer of the small BERT, which adds special tokens to a BERT's texts."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as bert:
        write_model(Path(bert))
        shutil.copyfile(Path(bert, "tokenizer.json"), folder / "tokenizer.json")
    if limit is not None:
        truncation = {"direction": "Right", "strategy": "LongestFirst", "stride": 0}
        edit_json(folder / "tokenizer.json", truncation={**truncation, "max_length": limit})
