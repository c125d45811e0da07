"""Holds the files next to `tokenizer.json` against it.

transformers builds a model's tokenizer from `tokenizer_config.json`, `special_tokens_map.json` and
`added_tokens.json` too, and prefers their settings. The compiler takes `tokenizer.json` alone, so
they must say the same.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from model_compiler.errors import SourceError, UnsupportedModelError, described
from model_compiler.files.config import ConfigFile
from model_compiler.files.folder import ConfigFolder
from model_compiler.tokenizer.classes import (
    BY_MODEL_TYPE,
    CLASSES,
    DEFAULTS,
    GENERIC,
    Step,
    TokenizerClass,
    class_name,
    default_settings,
    lowercases,
    steps,
)

Json = Mapping[str, Any]
#: A part of `tokenizer.json` that is wrong, the rule that it breaks, and its value.
BrokenRule = tuple[str, str, object]

#: Keys of further special tokens: lists, or objects by name.
EXTRA = ("additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens")
#: Keys of `tokenizer_config.json`, and the values with which `tokenizer.json` stays as it is.
EXPRESSED: Mapping[str, tuple[object, ...]] = {
    "auto_map": (None,),
    "init_inputs": ([], None),
    "split_special_tokens": (False, None),
    "fix_mistral_regex": (False, None),
}
#: Settings that the classes of BERT's kind read.
OF_BERT = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")

#: How XLM-RoBERTa's files join spaces. The ways differ in the spaces at the end of a text, which
#: versions of transformers treat differently.
JOINS = (
    {"type": "WhitespaceSplit"},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"},
)
STRIP = {"type": "Strip", "strip_left": False, "strip_right": True}


def read_settings(folder: ConfigFolder, document: Json) -> tuple[float | None, dict[str, int]]:
    """Check the files next to a `tokenizer.json`.

    Returns their limit of tokens, if any, and the ids of the special tokens, such as `cls_token`.
    """
    try:
        return _Settings(folder, document).read()
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise SourceError(
            f"{folder}: tokenizer.json and the files next to it must have the types that "
            f"transformers writes; found {described(error)}."
        ) from error


def built_document(folder: ConfigFolder, vocabulary: Mapping[str, int]) -> dict[str, Any] | None:
    """Return the `tokenizer.json` that transformers builds from the ids of a `vocab.txt` alone.

    None if the files name no class that builds one.
    """
    return _Settings(folder, {}).build(vocabulary)


class _Settings:
    def __init__(self, folder: ConfigFolder, document: Json) -> None:
        self._folder = folder
        self._document = document
        self._config = config = self._opened("tokenizer_config.json")
        model = self._opened("config.json")
        stated = config.optional("tokenizer_class") or model.optional("tokenizer_class")
        model_type = model.optional("model_type")
        self._stated = stated is not None
        self._name = class_name(stated, model_type)
        self._defaults = default_settings(stated, model_type)
        # An export of another family may have any class.
        own = BY_MODEL_TYPE.get(model_type)
        allowed = GENERIC | CLASSES.keys() | (DEFAULTS.keys() & {own})
        name = own if stated is None else str(stated).removesuffix("Fast")
        if own is not None and name not in allowed:
            raise UnsupportedModelError(
                f"{config.path}, or else config.json: tokenizer_class must be one of "
                f"{', '.join(sorted(allowed))}, because transformers may build "
                f"another tokenizer than tokenizer.json from it; found {json.dumps(stated)}. If "
                "tokenizer.json is right, state PreTrainedTokenizerFast, which takes it as it is."
            )
        self._class = CLASSES.get(self._name or "")
        self._added = {token["content"]: token for token in document.get("added_tokens") or ()}
        #: The special tokens by their keys.
        self._tokens: dict[str, str] = {}

    def read(self) -> tuple[float | None, dict[str, int]]:
        """Check the files; see `read_settings`."""
        config = self._config
        for key, values in EXPRESSED.items():
            config.require(key, *values)
        self._check_side()
        self._check_types()
        for broken in self._broken_rules():
            raise self._error(*broken)
        config.ignore(frozenset({*OF_BERT, "add_prefix_space"}))
        limit = self._limit()
        config.done("tokenizer_config.json")
        return limit, {key: self._added[text]["id"] for key, text in self._tokens.items()}

    def build(self, vocabulary: Mapping[str, int]) -> dict[str, Any] | None:
        """Return what the class builds from a vocabulary; see `built_document`."""
        built = self._class
        if built is None or built.model != "WordPiece":
            return None
        self._tokens = {
            key: _text(value)
            for key, value in {**built.tokens, **self._stated_tokens(self._token_files())}.items()
            if value is not None
        }
        listed = self._config.optional("added_tokens_decoder")
        if listed is None:
            flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
            added = [
                {"id": vocabulary[text], "content": text, "special": True, **flags}
                for text in sorted({*self._tokens.values()} & vocabulary.keys())
            ]
        else:
            added = [{**token, "id": int(number)} for number, token in listed.items()]
        expected = built.expected(self._setting)
        around = [self._tokens[key] for key in built.around]
        pieces = [{"SpecialToken": {"id": token, "type_id": 0}} for token in around]
        return {
            "version": "1.0",
            "added_tokens": sorted(added, key=lambda token: token["id"]),
            "normalizer": _first(expected.normalizer[0]),
            "pre_tokenizer": _first(expected.pre_tokenizer[0]),
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [pieces[0], {"Sequence": {"id": "A", "type_id": 0}}, pieces[1]],
                "pair": [],
                "special_tokens": {
                    token: {"id": token, "ids": [vocabulary.get(token)], "tokens": [token]}
                    for token in around
                },
            },
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", **_first(expected.model), "vocab": dict(vocabulary)},
        }

    def _token_files(self) -> list[ConfigFile]:
        older = [] if self._config.has("added_tokens_decoder") else ["special_tokens_map.json"]
        return [self._config, *map(self._opened, older)]

    def _stated_tokens(self, files: Sequence[ConfigFile]) -> dict[str, Any]:
        """Return the special tokens that files name, the last one first."""
        return {
            key: file.optional(key)
            for file in files
            for key in file
            if key.endswith("_token") and not key.startswith("add_")
        }

    def _limit(self) -> float | None:
        """Return the limit, by its older name if there is no newer."""
        key = "model_max_length" if "model_max_length" in self._config else "max_len"
        limit: float | None = self._config.optional(key)
        self._config.ignore(frozenset({"max_len"}))
        if limit is not None and (type(limit) not in {int, float} or limit < 1):
            self._config.fail(key, "a number of at least 1, or null", limit)
        return limit  # for none, transformers writes a number of 31 digits

    def _check_side(self) -> None:
        """Check that the end of a text is cut off; either file may name the side."""
        truncation = self._document.get("truncation") or {}
        side = self._config.optional("truncation_side") or truncation.get("direction", "right")
        if side.lower() != "right":
            raise UnsupportedModelError(
                f"{self._config.path}: truncation_side, or else the direction of the truncation in "
                f"tokenizer.json, must be right, which cuts off the end of a text; found {side}."
            )

    def _check_types(self) -> None:
        """Check that a text's tokens have the type 0, as the graph has them."""
        for post in steps(self._document.get("post_processor")):
            for piece in post.get("single") or ():
                if any(token["type_id"] for token in piece.values()):
                    raise UnsupportedModelError(
                        f"{self._folder.path / 'tokenizer.json'}: each type_id of the "
                        f"post_processor's single must be 0; found {json.dumps(piece)}."
                    )

    def _broken_rules(self) -> Iterator[BrokenRule]:
        """Yield the rules that `tokenizer.json` breaks."""
        yield from self._missing_tokens()
        yield from self._other_added_tokens()
        yield from self._other_parts(self._class) if self._class else self._other_settings()

    def _missing_tokens(self) -> Iterator[BrokenRule]:
        """Read the special tokens, which a text may contain; all are added tokens."""
        tokens: dict[str, Any] = dict(self._class.tokens) if self._class else {}
        if padding := self._document.get("padding"):
            tokens["pad_token"] = padding.get("pad_token")
        files = self._token_files()
        tokens |= self._stated_tokens(files)
        self._tokens = {
            key: _text(value) for key, value in tokens.items() if isinstance(value, str | dict)
        }
        texts = list(self._tokens.values())
        named = [tokens for file in files for tokens in map(file.optional, EXTRA) if tokens]
        for extra in named:
            texts += map(_text, extra.values() if isinstance(extra, dict) else extra)
        if self._class and not named:
            texts += self._class.extra
        for file in files[1:]:
            file.done()
        for text in texts:
            if text not in self._added:
                yield "added_tokens", f"have the special token {text!r}", None

    def _other_added_tokens(self) -> Iterator[BrokenRule]:
        """Compare the added tokens with those that the files list."""
        listed = self._config.optional("added_tokens_decoder")
        if listed is None:
            older = self._opened("added_tokens.json")
            for text in older:
                number = older.optional(text)
                if self._added.get(text, {}).get("id") != number:
                    yield "added_tokens", f"have {text!r} with the id {number}", None
            return
        for number, token in listed.items():
            added = self._added.get(_text(token), {"id": None})
            if _matching(added) != _matching({**token, "id": int(number)}):
                yield "added_tokens", f"have {token} with the id {number}", added
        taken = {*map(_text, listed.values()), *self._tokens.values()}
        for text in self._added:
            if self._class and text not in taken:
                yield "added_tokens", f"have those of {self._config.path.name}", text

    def _other_parts(self, built: TokenizerClass) -> Iterator[BrokenRule]:
        """Compare the parts with those that a class builds."""
        expected = built.expected(self._setting)
        normalizer = steps(self._document.get("normalizer"))
        before = steps(self._document.get("pre_tokenizer"))
        model = self._document["model"]
        if _kind(model) != built.model:
            if self._stated and built is not CLASSES["BertTokenizer"]:
                yield "model.type", f"be {built.model}", _kind(model)
            # transformers 4 applies the settings of BERT's class to any normalizer that has them.
            if _types(normalizer) == ["BertNormalizer"]:
                yield from _other_steps("normalizer", normalizer, expected.normalizer)
            return
        if built.model == "Unigram":
            if not any(join in (*normalizer, *before) for join in JOINS):
                yield "pre_tokenizer", "have a WhitespaceSplit", before
            # The class takes over the characters' map.
            start = int(_types(normalizer)[:1] == ["Precompiled"])
            normalizer = [step for step in normalizer[start:] if step not in (STRIP, *JOINS)]
            before = [step for step in before if step not in JOINS]
        yield from _other_steps("normalizer", normalizer, expected.normalizer)
        yield from _other_steps("pre_tokenizer", before, expected.pre_tokenizer)
        yield from _other_values("model", model, expected.model)
        if built.around:
            ids = [[self._id(key)] for key in built.around]
            around = _around(steps(self._document.get("post_processor")))
            if around != ids:
                yield "post_processor", f"put the ids {ids} around a text", around

    def _other_settings(self) -> Iterator[BrokenRule]:
        """Compare the settings of case, accents and spaces of a class that is not known here."""
        normalizer, before = (self._document.get(part) for part in ("normalizer", "pre_tokenizer"))
        types = _types([*steps(normalizer), *steps(before)])
        settings = {
            "do_lower_case": lowercases(normalizer),
            "keep_accents": "StripAccents" not in types,
            "split_by_punct": "Punctuation" in types,
        }
        for key, value in settings.items():
            # The generic classes do not read them.
            stated = self._setting(key, self._defaults.get(key))
            if self._name not in GENERIC and stated not in (None, value):
                yield "normalizer and pre_tokenizer", f"have {key} {not value}", value
        prefix = self._config.optional("add_prefix_space")
        for step in steps(before):
            if prefix is not None and "add_prefix_space" in step:
                yield from _other_values("pre_tokenizer", step, {"add_prefix_space": (prefix,)})

    def _setting(self, key: str, default: Any) -> Any:
        """Return a key of `tokenizer_config.json`, or the text or id of a token; see `Setting`."""
        if key.endswith("_token_id"):
            return self._id(key.removesuffix("_id"))
        if key.endswith("_token"):
            return self._tokens.get(key, default)
        return self._config.optional(key) if key in self._config else default

    def _id(self, key: str) -> int | None:
        number: int | None = self._added.get(self._tokens.get(key, ""), {}).get("id")
        return number

    def _opened(self, name: str) -> ConfigFile:
        return self._folder.config(name, optional=True)

    def _error(self, part: str, rule: str, value: object) -> SourceError:
        maker = f"{self._name} of transformers" if self._class else "transformers"
        return SourceError(
            f"{self._folder.path / 'tokenizer.json'}: {part} must {rule}, as {maker} has it from "
            f"tokenizer_config.json and the files next to it; found {json.dumps(value)}. Save the "
            "tokenizer again: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)."
        )


def _types(steps: Sequence[Json]) -> list[Any]:
    return [step.get("type") for step in steps]


def _other_steps(
    part: str, stated: Sequence[Json], expected: Sequence[Step]
) -> Iterator[BrokenRule]:
    """Compare the steps of a part with those that a class builds."""
    types = [step["type"][0] for step in expected]
    if _types(stated) != types:
        yield part, f"be {' and '.join(types) or 'empty'}", _types(stated)
    for step, values in zip(stated, expected, strict=True):
        yield from _other_values(part, step, values)


def _other_values(part: str, step: Json, expected: Step) -> Iterator[BrokenRule]:
    """Compare the keys of a step with the values that each may have."""
    for key, values in expected.items():
        if step.get(key) not in values:
            yield f"{part}.{key}", f"be {json.dumps(values[0])}", step.get(key)


def _text(token: Any) -> str:
    """Return the text of a token, which is a string or an object."""
    text = token["content"] if isinstance(token, dict) else token
    if not isinstance(text, str):
        raise TypeError(f"the token {token!r}")
    return text


def _first(step: Step) -> dict[str, Any]:
    """Return a step with the value that a class itself gives each of its keys."""
    return {key: values[0] for key, values in step.items()}


def _matching(token: Json) -> tuple[Any, ...]:
    """Return what decides where an added token matches; `special` decides how it is left out."""
    flags = (token.get(key, False) for key in ("single_word", "lstrip", "rstrip"))
    return token["id"], *flags, token.get("normalized", not token.get("special", False))


def _kind(model: Json) -> str:
    """Return the kind of a vocabulary; older files do not state it."""
    kind: str | None = model.get("type")
    if kind:
        return kind
    if isinstance(model.get("vocab"), list):
        return "Unigram"
    return "BPE" if "merges" in model else "WordPiece"


def _around(processors: Sequence[Json]) -> list[list[int]]:
    """Return the ids that the post-processors put in front of a text and behind it."""
    front: list[int] = []
    behind: list[int] = []
    for post in processors:
        if post["type"] in {"BertProcessing", "RobertaProcessing"}:
            front, behind = [post["cls"][1]], [post["sep"][1]]
        side = front
        for piece in post.get("single") or ():
            if "Sequence" in piece:
                side = behind
            else:
                side += post["special_tokens"][piece["SpecialToken"]["id"]]["ids"]
    return [front, behind]
