"""Small random models with a byte-level tokenizer, as sentence-transformers folders.

Each byte of a text is a token, so a text of ASCII letters has as many tokens as letters, and tests
choose the lengths.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from tests.model_compiler.goldens.files import (
    POOLING_KEYS,
    Tensors,
    post_processor,
    special_tokens,
    write_json,
    write_model_settings,
    write_modules,
)


def byte_alphabet() -> list[str]:
    """Return GPT-2's character for each byte: its own if it is visible, else one from 256 on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return [chr(byte) if byte in visible else chr(256 + hidden.index(byte)) for byte in range(256)]


def byte_level(**settings: bool) -> dict[str, Any]:
    """Return a step over bytes; settings that are not given are off."""
    off = dict.fromkeys(("add_prefix_space", "trim_offsets", "use_regex"), False)
    return {"type": "ByteLevel", **off, **settings}


def tokenizer(
    *,
    specials: Sequence[str],
    prefix: Sequence[str],
    suffix: Sequence[str],
    pre_tokenizer: Mapping[str, Any],
) -> dict[str, Any]:
    """Return a `tokenizer.json` of byte-level BPE without merges; specials follow the bytes."""
    vocabulary = {token: number for number, token in enumerate(byte_alphabet())}
    ids = {token: len(vocabulary) + number for number, token in enumerate(specials)}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special_tokens(ids),
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": pre_tokenizer,
        "post_processor": post_processor(ids, prefix, suffix),
        "decoder": byte_level(add_prefix_space=True, trim_offsets=True, use_regex=True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": [],
        },
    }


def write_folder(
    folder: Path,
    *,
    config: Mapping[str, Any],
    tensors: Tensors,
    tokenizer: Mapping[str, Any],
    tokenizer_config: Mapping[str, Any],
    pooling: str,
    prompts: Mapping[str, str],
    width: int | None = None,
    limit: int | None = None,
) -> Path:
    """Write the files of sentence-transformers 3 and return the folder.

    The width of a token's vector and the limit in tokens are those of `config` by default.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    save_file(tensors, folder / "model.safetensors")
    write_json(folder / "tokenizer.json", tokenizer)
    write_json(folder / "tokenizer_config.json", tokenizer_config)
    write_json(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": width or config["hidden_size"],
            **{f"pooling_mode_{mode}": mode == pooling for mode in POOLING_KEYS.values()},
            "include_prompt": True,
        },
    )
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    write_modules(
        folder, *((f"sentence_transformers.models.{kind}", path) for path, kind in modules)
    )
    write_json(
        folder / "sentence_bert_config.json",
        {"max_seq_length": limit or config["max_position_embeddings"], "do_lower_case": False},
    )
    write_model_settings(folder, prompts, version="3.4.0", similarity_fn_name="cosine")
    return folder


def text_of(length: int) -> str:
    """Return a text of as many letters, which differs from the start of a longer one."""
    random = np.random.RandomState(length)
    return "".join(chr(ord("a") + letter) for letter in random.randint(0, 26, length))
