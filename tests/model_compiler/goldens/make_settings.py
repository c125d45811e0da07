"""Makes `settings.json`: which keys of a model's files change what transformers computes.

It walks the configuration classes of the compiler's families, the classes of tokenizers, and the
modules of sentence-transformers; it changes each key, and compares. It runs once with each version
of transformers; version 4, without torch, adds what its tokenizers and configurations do.

pip install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0 orjson
PYTHONPATH=.:lambda_image python tests/model_compiler/goldens/make_settings.py

pip install transformers==4.57.1 safetensors orjson
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

from tests.model_compiler.goldens.setting_changes import (
    DROPPED,
    FAMILIES,
    change_file,
    write_family,
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
    found = json.loads(path.read_text("utf-8")) if path.exists() else {"configs": {}}
    found["configs"][VERSION] = _configs()
    if HAS_TORCH:
        found["config changes"] = dict(_config_changes(found["configs"]))
        found["folder changes"] = list(_folder_changes())
        found["tokenizers"] = _tokenizers()
        found["tokenizer changes"] = []
    cases = _tokenizer_changes(found["tokenizers"], found["tokenizer changes"])
    found["tokenizer changes"] = list(cases)
    path.write_text(json.dumps(found, indent=None, separators=(",", ":")) + "\n", encoding="utf-8")


def _configs() -> dict[str, Any]:
    """Return each family's `config.json` with all keys of its class."""
    found = {}
    for family in FAMILIES:
        with tempfile.TemporaryDirectory() as temporary:
            folder = write_family(Path(temporary) / "model", family)
            try:
                config = AutoConfig.from_pretrained(folder)
            except (ValueError, KeyError):  # a family that this version does not have
                continue
            # Gemma's class of version 4 halves the window each time that it writes it.
            own = json.loads((folder / "config.json").read_text("utf-8"))
            found[family] = json.loads(config.to_json_string(use_diff=False)) | own
    return found


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
    from sentence_transformers import SentenceTransformer

    try:
        model = SentenceTransformer(str(folder), device="cpu").eval()
        return np.stack([model.encode([text])[0] for text in TEXTS])
    except Exception:  # whatever a setting breaks
        return None


def _compared(expected: Any, found: Any) -> str:
    """Return `none` if there are no vectors, or else `same` or `other`."""
    if found is None:
        return "none"
    same = expected.shape == found.shape and np.allclose(expected, found, rtol=0, atol=1e-5)
    return "same" if same else "other"


#: Other files with a limit, for folders without `sentence_bert_config.json`.
LIMITS = [
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
    "sentence_other_config.json",
    "tokenizer_config.json",
]
#: Changes of the files of sentence-transformers, in a folder of its version 2.
FOLDER_CHANGES: list[tuple[str, dict[str, Any]]] = [
    *((name, {"max_seq_length": 5, "do_lower_case": False}) for name in LIMITS[:-1]),
    *(
        ("sentence_bert_config.json", {key: value})
        for key, value in {
            "max_seq_length": 5,
            "do_lower_case": True,
            "transformer_task": "fill-mask",
            "modality_config": {
                "text": {"method": "forward", "method_output_name": "pooler_output"}
            },
            "module_output_name": "sentence_embedding",
            "processing_kwargs": {"text": {"max_length": 5, "truncation": True}},
            "unpad_inputs": True,
            "query_length": 5,
            "document_length": 5,
            "query_expansion": {"strategy": "fixed", "length": 9},
            "model_kwargs": {"num_hidden_layers": 1},
            "model_args": {"num_hidden_layers": 1},
            "config_kwargs": {"num_hidden_layers": 1},
            "config_args": {"hidden_act": "relu"},
            "processor_kwargs": {"model_max_length": 5},
            "tokenizer_args": {"model_max_length": 5},
            "tokenizer_name_or_path": "/nowhere",
            "backend": "onnx",
        }.items()
    ),
    *(
        ("1_Pooling/config.json", {key: value})
        for key, value in {
            "word_embedding_dimension": 64,
            "embedding_dimension": 64,
            "pooling_mode": "cls",
            "pooling_mode_cls_token": True,
            "pooling_mode_max_tokens": True,
            "pooling_mode_mean_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": True,
            "pooling_mode_weightedmean_tokens": True,
            "pooling_mode_lasttoken": True,
            "include_prompt": False,
            "sparkle": 1,
        }.items()
    ),
    *(
        ("2_Dense/config.json", {key: value})
        for key, value in {
            "in_features": 33,
            "out_features": 15,
            "bias": False,
            "activation_function": "torch.nn.modules.activation.ReLU",
            "module_input_name": "token_embeddings",
            "module_output_name": "other",
            "use_residual": True,
            "sparkle": 1,
        }.items()
    ),
    ("3_Normalize/config.json", {"module_input_name": "token_embeddings"}),
    ("3_Normalize/config.json", {"module_output_name": "other"}),
    *(
        ("config_sentence_transformers.json", {key: value})
        for key, value in {
            "prompts": {"query": "the date "},
            "default_prompt_name": "query",
            "similarity_fn_name": "dot",
            "truncate_dim": 8,
            "model_type": "SparseEncoder",
            "__version__": {"sentence_transformers": "5.0.0"},
            "requirements": {},
            "sparkle": 1,
        }.items()
    ),
    (
        "config_sentence_transformers.json",
        {"prompts": {"query": "the date "}, "default_prompt_name": "query"},
    ),
    ("modules.json", {"0.idx": 7}),
    ("modules.json", {"0.sparkle": 7}),
    ("modules.json", {"2.name": "1"}),
    ("modules.json", {"3.type": "sentence_transformers.models.LayerNorm"}),
    ("modules.json", {"1.kwargs": ["task"]}),
    ("adapter_config.json", {"peft_type": "LORA", "base_model_name_or_path": None}),
    ("tokenizer_config.json", {"model_max_length": 5}),
]


def _folder_changes() -> Iterator[list[Any]]:
    for file, change in FOLDER_CHANGES:
        dropped = ["sentence_bert_config.json"] if file in LIMITS else []
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
    "GemmaTokenizer",
    "MPNetTokenizer",
    "PreTrainedTokenizerFast",
    "Qwen2Tokenizer",
    "RobertaTokenizer",
    "XLMRobertaTokenizer",
]


def _tokenizers() -> dict[str, Any]:
    """Return the files of a small tokenizer of each class, as this transformers saves it."""
    from transformers import (
        BertTokenizer,
        GemmaTokenizer,
        MPNetTokenizer,
        PreTrainedTokenizerFast,
        Qwen2Tokenizer,
        RobertaTokenizer,
        XLMRobertaTokenizer,
    )

    words = [*LETTERS, *(f"##{letter}" for letter in LETTERS), "hello", "world", "H", "W", "\u4f60"]
    bert = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    mpnet = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>", *words]
    merged = [*LETTERS, "H", "W", "\u0120", *(first + second for first, second in MERGES)]
    roberta = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *merged]
    qwen = ["<|endoftext|>", "<|im_end|>", *merged]
    gemma = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *merged, "\u2581"]
    gemma += [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
        "\u2581",
        "\u2581hello",
        "\u2581world",
        "H",
        *LETTERS,
    ]
    unigram = [(piece, -float(number)) for number, piece in enumerate([*pieces, "<mask>"])]
    numbered = {
        name: {token: number for number, token in enumerate(tokens)}
        for name, tokens in {
            "bert": bert,
            "mpnet": mpnet,
            "roberta": roberta,
            "qwen": qwen,
            "gemma": gemma,
        }.items()
    }
    made = {
        "BertTokenizer": ("bert", BertTokenizer(vocab=numbered["bert"])),
        "MPNetTokenizer": ("mpnet", MPNetTokenizer(vocab=numbered["mpnet"])),
        "RobertaTokenizer": (
            "roberta",
            RobertaTokenizer(vocab=numbered["roberta"], merges=MERGES),
        ),
        "XLMRobertaTokenizer": ("xlm-roberta", XLMRobertaTokenizer(vocab=unigram)),
        "Qwen2Tokenizer": ("qwen3", Qwen2Tokenizer(vocab=numbered["qwen"], merges=MERGES)),
        "GemmaTokenizer": ("gemma3_text", GemmaTokenizer(vocab=numbered["gemma"], merges=MERGES)),
    }
    made["TokenizersBackend"] = (
        "modernbert",
        PreTrainedTokenizerFast(tokenizer_object=made["RobertaTokenizer"][1].backend_tokenizer),
    )
    around = {"Qwen2Tokenizer": "$A <|endoftext|>", "GemmaTokenizer": "<bos> $A <eos>"}
    found = {}
    for name, (family, tokenizer) in made.items():
        if name in around:
            backend = tokenizer.backend_tokenizer
            specials = [(t, backend.token_to_id(t)) for t in around[name].split() if t != "$A"]
            backend.post_processor = tokenizers.processors.TemplateProcessing(
                single=around[name], pair="$A $B", special_tokens=specials
            )
        with tempfile.TemporaryDirectory() as folder:
            tokenizer.save_pretrained(folder)
            found[name] = {
                path.name: json.loads(path.read_text("utf-8")) for path in Path(folder).iterdir()
            } | {"config.json": {"model_type": family}}
    # Version 4 puts what these say around a text.
    found["GemmaTokenizer"]["tokenizer_config.json"] |= {
        "add_bos_token": True,
        "add_eos_token": True,
    }
    return found


#: Values to try for a key of `tokenizer_config.json`; for others, True, False and "left".
TOKENIZER_VALUES: dict[str, list[Any]] = {
    **{
        f"{name}_token": ["hello", "w", None, {"content": "hello", "lstrip": True}]
        for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask", "image")
    },
    "additional_special_tokens": [["hello"], ["d"], []],
    "extra_special_tokens": [["hello"], {"image_token": "hello"}, {}],
    "added_tokens_decoder": [{}],
    "auto_map": [{"AutoTokenizer": [None, "code.Tokenizer"]}],
    "init_inputs": [["hello"], []],
    "tokenizer_class": [
        DROPPED,
        "BertTokenizer",
        "BertTokenizerFast",
        "PreTrainedTokenizerFast",
        "ElectraTokenizer",
        "OtherTokenizer",
    ],
    "model_max_length": [5],
    "max_len": [5],
    "chat_template": ["{{ messages }}"],
    "model_input_names": [["input_ids"]],
    "never_split": [["hello"]],
    "errors": ["ignore"],
    "name_or_path": ["elsewhere"],
    "sp_model_kwargs": [{"enable_sampling": True}, {}],
}
#: Keys of published files. Some are arguments of older versions, or of classes in Python alone.
PUBLISHED_KEYS = [
    "add_bos_token",
    "add_eos_token",
    "add_prefix_space",
    "backend",
    "clean_up_tokenization_spaces",
    "do_basic_tokenize",
    "do_lower_case",
    "full_tokenizer_file",
    "is_local",
    "keep_accents",
    "legacy",
    "local_files_only",
    "max_length",
    "never_split",
    "pad_to_multiple_of",
    "pad_token_type_id",
    "padding_side",
    "processor_class",
    "remove_space",
    "sp_model_kwargs",
    "spaces_between_special_tokens",
    "special_tokens_map_file",
    "split_by_punct",
    "split_special_tokens",
    "stride",
    "strip_accents",
    "tokenize_chinese_chars",
    "tokenizer_file",
    "transformers_version",
    "trim_offsets",
    "truncation_side",
    "truncation_strategy",
    "use_default_system_prompt",
    "use_fast",
    "wordpieces_prefix",
]
TOKEN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True}
#: Changes of `tokenizer.json` and of the files beside it; those that a class cannot have fail.
TOKENIZER_CHANGES: list[tuple[str, dict[str, Any]]] = [
    *(
        ("tokenizer.json", change)
        for change in (
            {"normalizer.lowercase": False},
            {"normalizer.strip_accents": False},
            {"normalizer.strip_accents": True},
            {"normalizer.clean_text": False},
            {"normalizer.handle_chinese_chars": False},
            {"normalizer": None},
            {"normalizer": {"type": "Lowercase"}},
            {"normalizer": {"type": "NFKC"}},
            {"pre_tokenizer": None},
            {"pre_tokenizer": {"type": "Whitespace"}},
            {"pre_tokenizer.add_prefix_space": True},
            {"pre_tokenizer.use_regex": False},
            {"pre_tokenizer.pretokenizers.1.add_prefix_space": True},
            {"pre_tokenizer.pretokenizers.1.prepend_scheme": "never"},
            {"pre_tokenizer.pretokenizers.1.prepend_scheme": "first"},
            {"pre_tokenizer.pretokenizers.1.split": False},
            {"pre_tokenizer.pretokenizers.1.replacement": "_"},
            {"pre_tokenizer.pretokenizers.0.pattern": {"Regex": "l+"}},
            {"pre_tokenizer.pretokenizers.0.behavior": "Removed"},
            {"pre_tokenizer.behavior": "Removed"},
            {"pre_tokenizer.pattern": {"String": "l"}},
            {"model.max_input_chars_per_word": 200},
            {"model.continuing_subword_prefix": "#"},
            {"model.unk_token": "a"},
            {"model.unk_id": 4},
            {"model.byte_fallback": True},
            {"model.byte_fallback": False},
            {"model.fuse_unk": False},
            {"model.fuse_unk": True},
            {"model.ignore_merges": True},
            {"model.end_of_word_suffix": "o"},
            {"post_processor": None},
            {"post_processor.single": [{"Sequence": {"id": "A", "type_id": 0}}]},
            {"post_processor": {"type": "BertProcessing", "cls": ["a", 6], "sep": ["b", 7]}},
            {"post_processor.cls": ["a", 6]},
            {
                "truncation": {
                    "direction": "Left",
                    "max_length": 9,
                    "strategy": "LongestFirst",
                    "stride": 0,
                }
            },
            {
                "truncation": {
                    "direction": "Right",
                    "max_length": 9,
                    "strategy": "LongestFirst",
                    "stride": 0,
                }
            },
            {
                "padding": {
                    "strategy": {"Fixed": 4},
                    "direction": "Left",
                    "pad_to_multiple_of": 8,
                    "pad_id": 1,
                    "pad_type_id": 0,
                    "pad_token": "hello",
                }
            },
            {"added_tokens.0.content": "w"},
            {"added_tokens.2.lstrip": True},
            {"added_tokens.2.normalized": True},
            {"added_tokens.2.special": False},
            {"+added_tokens": {"id": 7, "content": "c", "special": False, **TOKEN}},
            {"+added_tokens": {"id": 7, "content": "c", "special": True, **TOKEN}},
        )
    ),
    *(
        ("special_tokens_map.json", change)
        for change in (
            {"cls_token": "hello"},
            {"additional_special_tokens": ["hello"]},
            {"do_lower_case": False},
        )
    ),
    ("added_tokens.json", {"hello": 5}),
    ("added_tokens.json", {"entirely new": 999}),
    ("config.json", {"tokenizer_class": "PreTrainedTokenizerFast"}),
    *(
        ("tokenizer_config.json", {"added_tokens_decoder": {number: token}})
        for number, token in {
            "0": {"content": "[PAD]", **TOKEN, "special": True},
            "5": {"content": "a", **TOKEN, "special": False},
            "9": {"content": "hello", **TOKEN, "special": True},
        }.items()
    ),
]


WRITTEN = {*PUBLISHED_KEYS, *TOKENIZER_VALUES}


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
        found = [*outcomes[:1], outcome]
        if outcome in found[:-1] or (outcome == "none" and outcomes):
            found.pop()
        # Most of the keys that the source names are never in a file.
        if found != ["none"] and ("other" in found or set(change) <= WRITTEN):
            yield [name, file, change, *found]


def _tried(files: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "tokenizer_config.json", {}
    for key in sorted({*_tokenizer_keys(), *WRITTEN, *files["tokenizer_config.json"]}):
        for value in TOKENIZER_VALUES.get(key, [True, False, "left"]):
            yield "tokenizer_config.json", {key: value}
    for key in files["tokenizer_config.json"]:
        yield "tokenizer_config.json", {key: DROPPED}
    yield from TOKENIZER_CHANGES


def _tokenizer_keys() -> set[str]:
    """Return the keys that transformers' classes have as arguments, or take from a dictionary."""
    from transformers import tokenization_utils_base, tokenization_utils_tokenizers
    from transformers.models.auto import tokenization_auto

    modules = (tokenization_utils_base, tokenization_utils_tokenizers, tokenization_auto)
    source = "".join(map(inspect.getsource, modules))
    taken = re.findall(r'(?:kwargs|config)(?:\.pop|\.get|\.setdefault)?[\[(]\s*"(\w+)"', source)
    taken += re.findall(r'"(\w+)" (?:not )?in (?:init_|local_)?(?:kwargs|tokenizer_config)', source)
    classes = [getattr(transformers, name) for name in TOKENIZERS]
    arguments = [inspect.signature(each.__init__).parameters for each in classes]
    return {
        *taken,
        *(name for each in arguments for name in each if name not in {"self", "kwargs"}),
    }


def _outcome(folder: Path) -> str:
    """Return `same` if transformers has the ids of `tokenizer.json`; else `other` or `none`."""
    try:
        alone = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        found = [tokenizer(text, truncation=True, max_length=LIMIT) for text in TOKENIZED]
    except BaseException:  # whatever a setting breaks, also in Rust
        return "none"
    alone.no_padding()
    alone.enable_truncation(LIMIT)
    ids = [alone.encode(text).ids for text in TOKENIZED]
    types = [value for each in found for value in each.get("token_type_ids", [])]
    same = [each["input_ids"] for each in found] == ids and not any(types)
    return "same" if same else "other"


if __name__ == "__main__":
    main()
