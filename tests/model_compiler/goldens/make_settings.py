"""Makes `settings.json`: which keys of a model's files change what transformers computes.

It walks the configuration classes of the compiler's families, the classes of tokenizers, and the
modules of sentence-transformers; it changes each key, and compares. It runs with version 4 of
transformers, without torch, for the keys of its configurations, then with version 5, which tries
them all, and again with version 4, for what its tokenizers do.

pip install transformers==4.57.1 safetensors orjson
PYTHONPATH=.:lambda_image python tests/model_compiler/goldens/make_settings.py

pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0 orjson
PYTHONPATH=.:lambda_image python tests/model_compiler/goldens/make_settings.py
"""

import importlib.util
import inspect
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import tokenizers
import transformers
from transformers import AutoConfig, AutoTokenizer

from tests.model_compiler.goldens.families import FAMILIES, open_reference, write_family
from tests.model_compiler.goldens.setting_changes import (
    DROPPED,
    change_file,
    write_tokenizer,
    write_with_dense,
)

HERE = Path(__file__).resolve().parent
VERSION = transformers.__version__
HAS_TORCH = importlib.util.find_spec("torch") is not None

#: Longer than ModernBERT's and Gemma's windows; in bytes for those with a byte-level tokenizer.
TEXTS = ["hello world", "the time of the date is over the limit of this model " * 3]

#: Values to try for a key of `config.json`, besides those that follow from its type.
VALUES: dict[str, list[Any]] = {
    "hidden_act": ["relu"],
    "activation": ["relu"],
    "hidden_activation": ["relu"],
    "activation_function": ["gelu"],
    "layer_types": [["sliding_attention"] * 3, ["full_attention"] * 7],
    "position_embedding_type": ["relative_key"],
    "rope_parameters": [{"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}],
    "rope_scaling": [{"rope_type": "linear", "factor": 2.0}, {"type": "dynamic", "factor": 2.0}],
    "pruned_heads": [{"0": [1]}],
    "dtype": ["bfloat16"],
    "torch_dtype": ["bfloat16"],
    "quantization_config": [{"quant_method": "bitsandbytes", "load_in_8bit": True}],
    "auto_map": [{"AutoModel": "code.Model"}],
    "model_type": [],
    "use_cache": [False],
}


#: Keys that a file of any family may have.
EVERYWHERE = ["auto_map", "position_embedding_type", "pruned_heads", "quantization_config"]


def main() -> None:
    """Write what this version of transformers does into the file."""
    path = HERE / "settings.json"
    content = json.loads(path.read_text("utf-8"))
    content["configs"][VERSION] = _configs()
    if HAS_TORCH:
        content["config changes"] = dict(_config_changes(content["configs"]))
        content["folder changes"] = list(_folder_changes(content["folder changes"]))
        content["tokenizers"] = _tokenizers()
        content["tokenizer changes"] = []
    cases = _tokenizer_changes(content["tokenizers"], content["tokenizer changes"])
    content["tokenizer changes"] = list(cases)
    path.write_text(
        json.dumps(content, indent=None, separators=(",", ":")) + "\n", encoding="utf-8"
    )


def _configs() -> dict[str, Any]:
    """Return each family's `config.json` with all keys of its class."""
    configs = {}
    for family in FAMILIES:
        with tempfile.TemporaryDirectory() as temporary:
            folder = write_family(Path(temporary) / "model", family)
            try:
                config = AutoConfig.from_pretrained(folder)
            except (ValueError, KeyError):  # a family that this version does not have
                continue
            # Gemma's class of version 4 halves the window each time that it writes it.
            own = json.loads((folder / "config.json").read_text("utf-8"))
            config.name_or_path = ""  # the temporary folder
            configs[family] = json.loads(config.to_json_string(use_diff=False)) | own
    return configs


def _config_changes(configs: dict[str, dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield for each family its keys, with the values that were tried and whether they matter."""
    for family in FAMILIES:
        keys: dict[str, Any] = {}
        for version in configs.values():
            keys |= version.get(family, {})
        results: dict[str, list[list[Any]]] = {}
        with tempfile.TemporaryDirectory() as temporary:
            folder = write_family(Path(temporary) / "model", family)
            path = folder / "config.json"
            before, expected = path.read_text("utf-8"), _vectors(folder)
            keys |= json.loads(before)
            for key in sorted(keys | dict.fromkeys(EVERYWHERE)):
                for value in VALUES.get(key, _other_values(keys.get(key))):
                    change_file(path, {key: value})
                    outcome = _compared(expected, _vectors(folder))
                    results.setdefault(key, []).append([value, outcome])
                    path.write_text(before, encoding="utf-8")
        yield family, results


def _other_values(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value * 2 + 2]
    if isinstance(value, float):
        return [value * 2 + 0.25]
    if isinstance(value, str):
        return [f"{value}x"]
    return [True, 1] if value is None else []


def _vectors(folder: Path) -> Any:
    """Return the vectors of each text alone, or None if the model cannot be loaded or run."""
    try:
        model = open_reference(folder)
        return np.stack([model.encode([text])[0] for text in TEXTS])
    except Exception:  # whatever a setting breaks
        return None


def _compared(expected: Any, found: Any) -> str:
    """Return `none` if there are no vectors, or else `same` or `other`."""
    if found is None:
        return "none"
    same = expected.shape == found.shape and np.allclose(expected, found, rtol=0, atol=1e-5)
    return "same" if same else "other"


def _folder_changes(known: list[list[Any]]) -> Iterator[list[Any]]:
    """Yield the cases of a folder of sentence-transformers 2: dropped files, file, change, outcome.

    To try another change, add it to `settings.json` without an outcome.
    """
    for dropped, file, change, *_ in known:
        with tempfile.TemporaryDirectory() as temporary:
            folder = write_with_dense(Path(temporary) / "model")
            for name in dropped:
                (folder / name).unlink()
            before = _vectors(folder)
            change_file(folder / file, change)
            yield [dropped, file, change, _compared(before, _vectors(folder))]


#: Upper case, accents, Chinese characters, control characters, long words, spaces, special tokens,
#: and more tokens than the limit.
TOKENIZED = [
    "Hello World",
    "caf\u00e9 \u00c9a",
    "\u4f60\u597dhello\u4f60",
    " hello  world",
    "he\u0000llo\u200bworld",
    "a" * 101,
    "hello [SEP] world [MASK]hello",
    "hello</s>world <mask> <s>hello",
    "hello<|endoftext|>world<eos>hello <bos>",
    "the world of hello " * 9,
    "shelloh [PAD]chc bac wet",
]
LIMIT = 16
LETTERS = "abcdefghijklmnopqrstuvwxyz"
MERGES = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("w", "o"), ("t", "h")]


TOKENIZERS = [
    "BertTokenizer",
    "CamembertTokenizer",
    "GemmaTokenizer",
    "MPNetTokenizer",
    "PreTrainedTokenizerFast",
    "Qwen2Tokenizer",
    "RobertaTokenizer",
    "XLMRobertaTokenizer",
]


def _tokenizers() -> dict[str, Any]:
    """Return the files of a small tokenizer of each class, as this transformers saves it."""

    def ids(tokens: list[str]) -> dict[str, int]:
        return {token: number for number, token in enumerate(tokens)}

    words = [*LETTERS, *(f"##{letter}" for letter in LETTERS), "hello", "world", "H", "W", "\u4f60"]
    bert = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    mpnet = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>", *words]
    merged = [*LETTERS, "H", "W", "\u0120", *(first + second for first, second in MERGES)]
    roberta = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *merged]
    qwen = ["<|endoftext|>", "<|im_end|>", *merged]
    gemma = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *merged, "\u2581"]
    gemma += [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces += ["\u2581", "\u2581hello", "\u2581world", "H", *LETTERS]
    unigram = [(piece, -float(number)) for number, piece in enumerate([*pieces, "<mask>"])]
    unused = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"]
    camembert = [(piece, -9.0) for piece in unused] + [
        each for each in unigram if each[0] not in unused
    ]
    made = {
        name: (family, getattr(transformers, name)(**given))
        for name, family, given in (
            ("BertTokenizer", "bert", {"vocab": ids(bert)}),
            ("MPNetTokenizer", "mpnet", {"vocab": ids(mpnet)}),
            ("RobertaTokenizer", "roberta", {"vocab": ids(roberta), "merges": MERGES}),
            ("XLMRobertaTokenizer", "xlm-roberta", {"vocab": unigram}),
            ("CamembertTokenizer", "camembert", {"vocab": camembert}),
            ("Qwen2Tokenizer", "qwen3", {"vocab": ids(qwen), "merges": MERGES}),
            ("GemmaTokenizer", "gemma3_text", {"vocab": ids(gemma), "merges": MERGES}),
        )
    }
    backend = made["RobertaTokenizer"][1].backend_tokenizer
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=backend)
    made["TokenizersBackend"] = ("modernbert", fast)
    around = {"Qwen2Tokenizer": "$A <|endoftext|>", "GemmaTokenizer": "<bos> $A <eos>"}
    files = {}
    for name, (family, tokenizer) in made.items():
        if name in around:
            backend = tokenizer.backend_tokenizer
            specials = [(t, backend.token_to_id(t)) for t in around[name].split() if t != "$A"]
            backend.post_processor = tokenizers.processors.TemplateProcessing(
                single=around[name], pair="$A $B", special_tokens=specials
            )
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save_pretrained(folder)
            files[name] = {
                path.name: json.loads(path.read_text("utf-8")) for path in Path(folder).iterdir()
            } | {"config.json": {"model_type": family}}
    # Version 4 puts what these say around a text.
    files["GemmaTokenizer"]["tokenizer_config.json"] |= {
        "add_bos_token": True,
        "add_eos_token": True,
    }
    return files


#: Values to try for keys of `tokenizer_config.json` (for others, True, False and "left"), keys of
#: published files, and changes of `tokenizer.json` and of the files next to it. Some keys are
#: arguments of older versions, or of classes in Python alone; what a class cannot have fails.
TRIED = json.loads((HERE / "tokenizer_settings.json").read_text("utf-8"))
WRITTEN = {*TRIED["published keys"], *TRIED["values"]}


def _tokenizer_changes(bases: dict[str, Any], known: list[list[Any]]) -> Iterator[list[Any]]:
    """Yield the class, the file, the change and its outcome, and that of version 4 if it differs.

    A change with which a version cannot load the tokenizer has no outcome there.
    """
    cases = known or [
        [name, file, change] for name, files in bases.items() for file, change in _tried(files)
    ]
    for name, file, change, *outcomes in cases:
        with tempfile.TemporaryDirectory() as temporary:
            folder = write_tokenizer(Path(temporary) / "model", bases[name])
            try:
                change_file(folder / file, change)
            except (KeyError, IndexError, TypeError):  # of another class
                continue
            outcome = _outcome(folder)
        outcomes_by_version = [*outcomes[:1], outcome]
        if outcome in outcomes_by_version[:-1] or (outcome == "none" and outcomes):
            outcomes_by_version.pop()
        # Most of the keys that the source names are never in a file.
        if outcomes_by_version != ["none"] and (
            "other" in outcomes_by_version or set(change) <= WRITTEN
        ):
            yield [name, file, change, *outcomes_by_version]


def _tried(files: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "tokenizer_config.json", {}
    for key in sorted({*_tokenizer_keys(), *WRITTEN, *files["tokenizer_config.json"]}):
        for value in TRIED["values"].get(key, [True, False, "left"]):
            yield "tokenizer_config.json", {key: value}
    for key in files["tokenizer_config.json"]:
        yield "tokenizer_config.json", {key: DROPPED}
    yield from TRIED["changes"]


def _tokenizer_keys() -> set[str]:
    """Return the keys that transformers' classes have as arguments, or take from a dictionary."""
    from transformers import tokenization_utils_base, tokenization_utils_tokenizers
    from transformers.models.auto import tokenization_auto

    modules = (tokenization_utils_base, tokenization_utils_tokenizers, tokenization_auto)
    source = "".join(map(inspect.getsource, modules))
    taken = re.findall(r'(?:kwargs|config)(?:\.pop|\.get|\.setdefault)?[\[(]\s*"(\w+)"', source)
    taken += re.findall(r'"(\w+)" (?:not )?in (?:init_|local_)?(?:kwargs|tokenizer_config)', source)
    classes = [getattr(transformers, name) for name in TOKENIZERS]
    arguments = [
        inspect.signature(tokenizer_class.__init__).parameters for tokenizer_class in classes
    ]
    return {
        *taken,
        *(name for each in arguments for name in each if name not in {"self", "kwargs"}),
    }


def _outcome(folder: Path) -> str:
    """Return `same` if transformers has the ids of `tokenizer.json`; else `other` or `none`."""
    try:
        alone = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        encodings = [tokenizer(text, truncation=True, max_length=LIMIT) for text in TOKENIZED]
    except BaseException:  # whatever a setting breaks, also in Rust
        return "none"
    alone.no_padding()
    alone.enable_truncation(LIMIT)
    ids = [alone.encode(text).ids for text in TOKENIZED]
    types = [value for encoding in encodings for value in encoding.get("token_type_ids", [])]
    same = [encoding["input_ids"] for encoding in encodings] == ids and not any(types)
    return "same" if same else "other"


if __name__ == "__main__":
    main()
