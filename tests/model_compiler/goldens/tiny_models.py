"""Small random models as sentence-transformers folders: a family's traits in a few kilobytes."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tests.model_compiler.goldens.files import (
    POOLING_KEYS,
    Tensors,
    edit_json,
    post_processor,
    special_tokens,
    write_json,
    write_model_settings,
    write_modules,
    write_router_files,
)
from tests.model_compiler.goldens.random_model import RandomWeights

HIDDEN, LAYERS, HEADS, WIDE, POSITIONS = 32, 2, 4, 64, 40
LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENS = (
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    + [*LETTERS, *"0123456789.,!?", "the", "date", "time", "hello", "world", "parse"]
    + [f"##{letter}" for letter in LETTERS]
)

TEXTS = (
    "a",
    "hello world",
    "Parse the date, then the time!",
    "one two three four five six seven eight nine ten",
    "x1 y2 z3? \u6771\u4eac \U0001f600",
    "the time of the date is over the limit of this model and has to be cut somewhere",
)

MODULES = "sentence_transformers.models."
NEW_MODULES = {
    "Transformer": "sentence_transformers.base.modules.transformer.Transformer",
    "Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "Dense": "sentence_transformers.base.modules.dense.Dense",
    "Normalize": "sentence_transformers.base.modules.normalize.Normalize",
}

#: The file of an encoder's Transformer, of sentence-transformers 6.
ENCODER = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
}

#: What each golden model has that the plain one does not.
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tanh gelu": {"config": {"hidden_act": "gelu_new"}},
    "relu": {"config": {"hidden_act": "relu"}},
    "silu": {"config": {"hidden_act": "silu"}},
    "epsilon": {"config": {"layer_norm_eps": 1e-3}},
    "cls": {"pooling": ["cls"]},
    "max": {"pooling": ["max"]},
    "mean_sqrt_len_tokens": {"pooling": ["mean_sqrt_len_tokens"]},
    "weightedmean": {"pooling": ["weightedmean"]},
    "lasttoken": {"pooling": ["lasttoken"]},
    "cls and mean": {"pooling": ["cls", "mean"]},
    "dense": {"dense": [(48, True, "activation.Tanh"), (24, False, "linear.Identity")]},
    "dense relu": {"dense": [(16, True, "activation.ReLU")]},
    "dense gelu": {"dense": [(16, True, "activation.GELU")]},
    "dense sigmoid": {"dense": [(16, False, "activation.Sigmoid")]},
    "normalize, dense": {"dense": [(16, True, "activation.Tanh")], "normalizes_first": True},
    "new files": {"new_files": True, "dense": [(16, True, "activation.Tanh")]},
}


def write_model(
    folder: Path,
    *,
    config: Mapping[str, Any] | None = None,
    pooling: Sequence[str] = ("mean",),
    dense: Sequence[tuple[int, bool, str]] = (),
    normalizes_first: bool = False,
    new_files: bool = False,
    seed: int = 0,
) -> Path:
    """Write a BERT with random weights, and other keys of `config.json`, and return its folder.

    Of each Dense module, `dense` has the width, whether it has a bias, and its activation's class.
    New files are those of sentence-transformers 6, not 2.
    """
    folder.mkdir(parents=True, exist_ok=True)
    values = {**_config(), **(config or {})}
    write_json(folder / "config.json", values)
    save_file(bert_tensors(values, seed=seed), folder / "model.safetensors")
    _write_tokenizer(folder, limit=16 if new_files else 512)
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    _write_pooling(folder / "1_Pooling", pooling, values["hidden_size"], new_files=new_files)
    width = values["hidden_size"] * len(pooling)
    if normalizes_first:
        modules.append(("Normalize", "2_Normalize"))
    for number, traits in enumerate(dense, start=len(modules)):
        modules.append(("Dense", f"{number}_Dense"))
        _write_dense(folder / f"{number}_Dense", width, traits, seed=seed + number)
        width = traits[0]
    modules.append(("Normalize", f"{len(modules)}_Normalize"))
    write_modules(
        folder,
        *((NEW_MODULES[kind] if new_files else MODULES + kind, path) for kind, path in modules),
    )
    _write_sentence_files(folder, modules[-1][1], new_files=new_files)
    return folder


def write_router(folder: Path, *, seed: int = 3) -> Path:
    """Write a Router with two encoders and a shared Normalize, and return its folder."""
    ids: dict[str, list[str]] = {}
    for route, traits in (("query", {"pooling": ["cls"]}), ("document", {"seed": seed})):
        model = write_model(folder.with_name(f"{folder.name}-{route}"), **traits)
        ids[route] = [f"{route}_0_Transformer", f"{route}_1_Pooling"]
        shutil.copytree(model, folder / ids[route][0], dirs_exist_ok=True)
        shutil.copytree(model / "1_Pooling", folder / ids[route][1], dirs_exist_ok=True)
        for name in ("modules.json", "config_sentence_transformers.json"):
            (folder / ids[route][0] / name).unlink()
    types = {name: NEW_MODULES[name.rpartition("_")[2]] for names in ids.values() for name in names}
    write_router_files(folder, types, ids, (NEW_MODULES["Normalize"], "1_Normalize"))
    prompts = {"query": "parse: ", "document": "the "}
    write_model_settings(folder, prompts, similarity_fn_name="cosine")
    return folder


def leave_prompts_out(folder: Path, prompts: Mapping[str, str]) -> Path:
    """Give a model's folder prompts, and a pooling without their tokens; return the folder."""
    edit_json(folder / "1_Pooling" / "config.json", include_prompt=False)
    edit_json(folder / "config_sentence_transformers.json", prompts=dict(prompts))
    return folder


def write_vocabulary(folder: Path, **settings: Any) -> Path:
    """Write a tokenizer as a `vocab.txt` without a `tokenizer.json`, and return its folder."""
    (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n", "utf-8")
    values = {"tokenizer_class": "BertTokenizer", "model_max_length": 512, **settings}
    write_json(folder / "tokenizer_config.json", values)
    write_json(folder / "config.json", _config())
    return folder


def bert_tensors(config: Mapping[str, Any], *, seed: int) -> Tensors:
    """Return random weights of a BERT, float32, under the names of transformers' BertModel."""
    weights = RandomWeights(seed)
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    weights.table("embeddings.word_embeddings", config["vocab_size"], hidden)
    for name, key in (("position", "max_position_embeddings"), ("token_type", "type_vocab_size")):
        weights.table(f"embeddings.{name}_embeddings", config[key], hidden, scale=0.1)
    weights.norm("embeddings.LayerNorm", hidden)
    weights.linear("pooler.dense", hidden, hidden, scale=0.1)
    for layer in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{layer}."
        for projection in ("self.query", "self.key", "self.value", "output.dense"):
            weights.linear(f"{name}attention.{projection}", hidden, hidden)
        weights.linear(f"{name}intermediate.dense", wide, hidden)
        weights.linear(f"{name}output.dense", hidden, wide)
        weights.norm(f"{name}attention.output.LayerNorm", hidden)
        weights.norm(f"{name}output.LayerNorm", hidden)
    return weights


def _config() -> dict[str, Any]:
    return {
        "architectures": ["BertModel"],
        "hidden_act": "gelu",
        "hidden_size": HIDDEN,
        "intermediate_size": WIDE,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": POSITIONS,
        "model_type": "bert",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "pad_token_id": 0,
        "type_vocab_size": 2,
        "vocab_size": len(TOKENS),
    }


def _write_tokenizer(folder: Path, *, limit: int) -> None:
    ids = {token: index for index, token in enumerate(TOKENS)}
    write_json(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": special_tokens({token: ids[token] for token in TOKENS[:5]}),
            "normalizer": {
                "type": "BertNormalizer",
                "clean_text": True,
                "handle_chinese_chars": True,
                "strip_accents": None,
                "lowercase": True,
            },
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": post_processor(ids, ["[CLS]"], ["[SEP]"], between=["[SEP]"]),
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {
                "type": "WordPiece",
                "unk_token": "[UNK]",
                "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 100,
                "vocab": ids,
            },
        },
    )
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": limit,
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "mask_token": "[MASK]",
        },
    )


def _write_pooling(folder: Path, modes: Sequence[str], width: int, *, new_files: bool) -> None:
    if new_files:
        mode = modes[0] if len(modes) == 1 else list(modes)
        values: dict[str, Any] = {
            "embedding_dimension": width,
            "pooling_mode": mode,
            "include_prompt": True,
        }
    else:
        values = {
            "word_embedding_dimension": width,
            **{f"pooling_mode_{key}": mode in modes for mode, key in POOLING_KEYS.items()},
        }
    write_json(folder / "config.json", values)


def _write_dense(folder: Path, inputs: int, traits: tuple[int, bool, str], *, seed: int) -> None:
    outputs, bias, activation = traits
    random = np.random.default_rng(seed)
    write_json(
        folder / "config.json",
        {
            "in_features": inputs,
            "out_features": outputs,
            "bias": bias,
            "activation_function": f"torch.nn.modules.{activation}",
        },
    )
    tensors = {"linear.weight": random.standard_normal((outputs, inputs)).astype(np.float32)}
    if bias:
        tensors["linear.bias"] = random.standard_normal(outputs).astype(np.float32)
    save_file(tensors, folder / "model.safetensors")


def _write_sentence_files(folder: Path, normalize: str, *, new_files: bool) -> None:
    if not new_files:
        limit = {"max_seq_length": 16, "do_lower_case": False}
        write_json(folder / "sentence_bert_config.json", limit)
        version = {"__version__": {"sentence_transformers": "2.0.0"}}
        write_json(folder / "config_sentence_transformers.json", version)
        return
    write_json(folder / "sentence_bert_config.json", ENCODER)
    names = dict.fromkeys(("module_input_name", "module_output_name"), "sentence_embedding")
    write_json(folder / normalize / "config.json", names)
    write_model_settings(
        folder,
        {"query": "parse: ", "document": ""},
        similarity_fn_name="cosine",
        model_type="SentenceTransformer",
    )
