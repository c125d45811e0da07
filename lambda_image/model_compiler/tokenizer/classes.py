"""The tokenizers that transformers' classes build, as parts of a `tokenizer.json`.

Since version 5, such a class takes the vocabulary from `tokenizer.json` and builds the other parts
itself, from `tokenizer_config.json` and its own defaults. Version 4 does so for the settings of
case, accents and spaces alone. The source is `tokenization_*.py` in `transformers/models/`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

#: Reads a key of `tokenizer_config.json`, with the default of the class.
Setting = Callable[[str, Any], Any]
#: The keys of one step of a part, and the values that each may have.
Step = Mapping[str, tuple[Any, ...]]

#: Classes that take `tokenizer.json` as it is.
GENERIC = frozenset({"PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend"})

NO = (False, None)
NOTHING = ("", None)
UNDERSCORE = "\u2581"

#: Qwen's splitting of a text into words.
QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPACES = {"String": " "}


@dataclass(frozen=True, slots=True)
class Expected:
    """The parts of a `tokenizer.json` besides the vocabulary."""

    normalizer: Sequence[Step]
    pre_tokenizer: Sequence[Step]
    model: Step


@dataclass(frozen=True, slots=True)
class TokenizerClass:
    """The tokenizer that a class builds."""

    #: The kind of vocabulary. A class cannot build a tokenizer from another kind, but published
    #: folders name BERT's class or none, and transformers 4 takes their `tokenizer.json` as it is.
    model: str
    #: The special tokens that it has if no file names others.
    tokens: Mapping[str, str]
    expected: Callable[[Setting], Expected]
    #: The keys of the tokens around a text; none if those of `tokenizer.json` remain.
    around: tuple[str, ...] = ()
    #: Further special tokens that it has if no file names others.
    extra: tuple[str, ...] = ()


def steps(part: Any) -> list[dict[str, Any]]:
    """Return the steps of a part of `tokenizer.json`, those of a sequence one by one."""
    if not isinstance(part, dict):
        return []
    if part.get("type") == "Sequence":
        lists = (part.get(key) for key in ("normalizers", "pretokenizers", "processors"))
        return [step for inner in lists for substep in inner or () for step in steps(substep)]
    if part.get("type") == "Metaspace":  # its option has two names
        newer = part.get("prepend_scheme")
        prefix = part.get("add_prefix_space", True) if newer is None else newer == "always"
        return [{**part, "add_prefix_space": prefix}]
    return [part]


def lowercases(normalizer: Any) -> bool:
    """Say whether a normalizer, or one in its sequence, lowers the case."""
    return any(
        step.get("type") == "Lowercase" or step.get("lowercase") is True
        for step in steps(normalizer)
    )


def class_name(stated: Any, model_type: Any) -> str | None:
    """Return the class that transformers takes; None if it is none of those that are known here."""
    if model_type == "modernbert":  # whatever its files say
        return "TokenizersBackend"
    name = stated if isinstance(stated, str) else BY_MODEL_TYPE.get(model_type, "")
    name = name if name in GENERIC else name.removesuffix("Fast")
    return name if name in GENERIC or name in CLASSES else None


def default_settings(stated: Any, model_type: Any) -> Mapping[str, bool]:
    """Return the settings of a class that `class_name` does not know, if no file states them."""
    names = BY_MODEL_TYPE | OTHER_BY_MODEL_TYPE
    name = stated if isinstance(stated, str) else names.get(model_type, "")
    return DEFAULTS.get(name.removesuffix("Fast"), {})


def _wordpiece(setting: Setting) -> Expected:
    lowercase = setting("do_lower_case", True)
    strips = setting("strip_accents", None)
    # Null strips accents if the case is lowered.
    same = (lowercase, None) if strips in (lowercase, None) else (strips,)
    return Expected(
        normalizer=[
            {
                "type": ("BertNormalizer",),
                "lowercase": (lowercase,),
                "strip_accents": same,
                "handle_chinese_chars": (setting("tokenize_chinese_chars", True),),
                "clean_text": (True,),
            }
        ],
        pre_tokenizer=[{"type": ("BertPreTokenizer",)}],
        model={
            "unk_token": (setting("unk_token", None),),
            "continuing_subword_prefix": ("##", None),
            "max_input_chars_per_word": (100, None),
        },
    )


def _byte_level(setting: Setting) -> Expected:
    return Expected(
        normalizer=[],
        pre_tokenizer=[
            {
                "type": ("ByteLevel",),
                "add_prefix_space": (setting("add_prefix_space", False),),
                "use_regex": (True, None),
            }
        ],
        model=_bpe(None),
    )


def _qwen2(setting: Setting) -> Expected:
    return Expected(
        normalizer=[{"type": ("NFC",)}],
        pre_tokenizer=[
            {
                "type": ("Split",),
                "pattern": ({"Regex": QWEN_WORDS},),
                "behavior": ("Isolated",),
                "invert": NO,
            },
            {
                "type": ("ByteLevel",),
                "add_prefix_space": (setting("add_prefix_space", False) or False,),
                "use_regex": (False,),
            },
        ],
        model=_bpe(None),
    )


def _gemma(setting: Setting) -> Expected:
    return Expected(
        normalizer=[{"type": ("Replace",), "pattern": (SPACES,), "content": (UNDERSCORE,)}],
        pre_tokenizer=[
            {
                "type": ("Split",),
                "pattern": (SPACES,),
                "behavior": ("MergedWithPrevious",),
                "invert": NO,
            }
        ],
        model={**_bpe(setting("unk_token", None)), "fuse_unk": (True,), "byte_fallback": (True,)},
    )


def _bpe(unknown: str | None) -> Step:
    return {
        "unk_token": (unknown,),
        "dropout": (None, 0.0),
        "continuing_subword_prefix": NOTHING,
        "end_of_word_suffix": NOTHING,
        "byte_fallback": NO,
        "ignore_merges": NO,
    }


def _xlm_roberta(setting: Setting) -> Expected:
    return Expected(
        normalizer=[],
        pre_tokenizer=[
            {
                "type": ("Metaspace",),
                "replacement": (UNDERSCORE,),
                "add_prefix_space": (setting("add_prefix_space", True),),
                "prepend_scheme": ("always", "never", None),
                "split": (True, None),
            }
        ],
        model={"unk_id": (3,), "byte_fallback": NO},
    )


def _camembert(setting: Setting) -> Expected:
    expected = _xlm_roberta(setting)
    return replace(expected, model={**expected.model, "unk_id": (setting("unk_token_id", None),)})


_BERT = TokenizerClass(
    model="WordPiece",
    tokens={f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")},
    expected=_wordpiece,
    around=("cls_token", "sep_token"),
)
_FAIRSEQ = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "cls_token": "<s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}
_ROBERTA = TokenizerClass(
    model="BPE", tokens=_FAIRSEQ, expected=_byte_level, around=("cls_token", "sep_token")
)
_XLM_ROBERTA = TokenizerClass(
    model="Unigram", tokens=_FAIRSEQ, expected=_xlm_roberta, around=("bos_token", "eos_token")
)

#: The classes by their names without `Fast`.
CLASSES: Mapping[str, TokenizerClass] = {
    **dict.fromkeys(
        (
            "BertTokenizer",
            "ConvBertTokenizer",
            "DistilBertTokenizer",
            "ElectraTokenizer",
            "LayoutLMTokenizer",
            "LxmertTokenizer",
            "MobileBertTokenizer",
            "SqueezeBertTokenizer",
        ),
        _BERT,
    ),
    "MPNetTokenizer": replace(_BERT, tokens={**_FAIRSEQ, "unk_token": "[UNK]"}),
    "RobertaTokenizer": _ROBERTA,
    "BartTokenizer": _ROBERTA,
    "LongformerTokenizer": _ROBERTA,
    "XLMRobertaTokenizer": _XLM_ROBERTA,
    "CamembertTokenizer": replace(
        _XLM_ROBERTA, expected=_camembert, extra=("<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED")
    ),
    "Qwen2Tokenizer": TokenizerClass(
        model="BPE",
        tokens=dict.fromkeys(("unk_token", "eos_token", "pad_token"), "<|endoftext|>"),
        expected=_qwen2,
    ),
    "GemmaTokenizer": TokenizerClass(
        model="BPE",
        tokens={f"{name}_token": f"<{name}>" for name in ("unk", "bos", "eos", "pad", "mask")},
        expected=_gemma,
    ),
}
#: The class of a model if its files name none.
BY_MODEL_TYPE = {
    "albert": "AlbertTokenizer",
    "bert": "BertTokenizer",
    "camembert": "CamembertTokenizer",
    "distilbert": "BertTokenizer",
    "electra": "BertTokenizer",
    "embedding_gemma2": "GemmaTokenizer",
    "embedding_gemma2_text": "GemmaTokenizer",
    "ernie": "BertTokenizer",
    "eurobert": "TokenizersBackend",
    "gemma3_text": "GemmaTokenizer",
    "gte": "XLMRobertaTokenizer",
    "jina_embeddings_v3": "XLMRobertaTokenizer",
    "mistral": "TokenizersBackend",
    "mpnet": "MPNetTokenizer",
    "new": "TokenizersBackend",  # its own code names no class
    "nomic_bert": "BertTokenizer",
    "qwen2": "Qwen2Tokenizer",
    "qwen3": "Qwen2Tokenizer",
    "roberta": "RobertaTokenizer",
    "t5": "T5Tokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
}

#: What further classes do about case, accents and punctuation if `tokenizer_config.json` does not
#: say it; T5's does nothing. The other parts that they build are not known here.
DEFAULTS: Mapping[str, Mapping[str, bool]] = {
    "AlbertTokenizer": {"do_lower_case": True, "keep_accents": False},
    "DebertaV2Tokenizer": {"do_lower_case": False, "split_by_punct": False},
    "FunnelTokenizer": {"do_lower_case": True},
    "RemBertTokenizer": {"do_lower_case": False, "keep_accents": True},
    "SplinterTokenizer": {"do_lower_case": True},
    "T5Tokenizer": {},
    "XLNetTokenizer": {"do_lower_case": False, "keep_accents": False},
}
#: Their names, by the type of an export whose files name no class.
OTHER_BY_MODEL_TYPE = {
    "deberta-v2": "DebertaV2Tokenizer",
    "funnel": "FunnelTokenizer",
    "rembert": "RemBertTokenizer",
    "splinter": "SplinterTokenizer",
    "xlnet": "XLNetTokenizer",
}
