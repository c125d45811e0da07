"""The fast Unigram names what it does not cover, and the library serves."""

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from model_compiler.tokenizer.tables import build
from tests.fixtures.unigram_tokenizer import unigram_tokenizer

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Return a small vocabulary with XLM-RoBERTa's parts."""
    document: dict[str, Any] = json.loads(unigram_tokenizer(tokens=1500, files=2))
    return document


def put(*path: str | int, value: object) -> Change:
    """Return a change of one value, at this path of keys."""

    def change(document: dict[str, Any]) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def sequence(*normalizers: dict[str, Any]) -> Change:
    """Return a change that puts normalizers behind the character map."""

    def change(document: dict[str, Any]) -> None:
        parts = [document["normalizer"], *normalizers]
        document["normalizer"] = {"type": "Sequence", "normalizers": parts}

    return change


METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
COLLAPSE = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
STRIP = {"type": "Strip", "strip_left": True, "strip_right": True}

NOT_COVERED: dict[str, tuple[Change, str]] = {
    "another normalizer": (put("normalizer", value={"type": "NFKC"}), "normalizer NFKC"),
    "another replacement": (sequence(COLLAPSE | {"content": "x"}), "normalizer Replace"),
    "another pattern": (sequence(COLLAPSE | {"pattern": {"Regex": r"\s+"}}), "normalizer Replace"),
    "two maps": (
        lambda document: sequence(document["normalizer"])(document),
        "this order of normalizers: Precompiled",
    ),
    "another order": (sequence(COLLAPSE, STRIP), "this order of normalizers: Strip"),
    "another pre-tokenizer": (
        put("pre_tokenizer", value={"type": "BertPreTokenizer"}),
        "pre_tokenizer BertPreTokenizer",
    ),
    "words alone": (
        put("pre_tokenizer", value={"type": "WhitespaceSplit"}),
        "pre_tokenizer WhitespaceSplit",
    ),
    "three pre-tokenizers": (
        put(
            "pre_tokenizer",
            "pretokenizers",
            value=[{"type": "WhitespaceSplit"}, METASPACE, METASPACE],
        ),
        "pre_tokenizer WhitespaceSplit, Metaspace, Metaspace",
    ),
    "another sign": (
        put("pre_tokenizer", value=METASPACE | {"replacement": "_"}),
        "a pre_tokenizer with the replacement _",
    ),
    "the first of words": (
        put("pre_tokenizer", "pretokenizers", 1, "prepend_scheme", value="first"),
        "prepend_scheme first after WhitespaceSplit",
    ),
    "an option of the model": (
        put("model", "fuse_unk", value=False),
        "the model: unknown fuse_unk",
    ),
    "no bytes": (put("model", "byte_fallback", value=True), "byte_fallback without a token"),
    "a text twice": (
        lambda document: document["model"]["vocab"].__setitem__(10, ["<s>", -3.0]),
        "two ids of one token",
    ),
    "an empty token": (
        put("model", "vocab", 10, value=["", -3.0]),
        "a vocabulary with an empty token",
    ),
    "a large score": (
        put("model", "vocab", 10, value=["zzz", -1e300]),
        "a score that is not below 1e+30",
    ),
    "ids of its own": (put("added_tokens", 4, "id", value=20), "ids that are not the file's own"),
    "a word of its own": (
        put("added_tokens", 4, "single_word", value=True),
        "an added token with single_word",
    ),
}


@pytest.mark.parametrize(("change", "reason"), NOT_COVERED.values(), ids=NOT_COVERED)
def test_what_is_not_covered_is_named(
    document: dict[str, Any], change: Change, reason: str
) -> None:
    """The library serves, from the file as it was, and the artifact can say why."""
    changed = copy.deepcopy(document)
    change(changed)
    data = json.dumps(changed).encode()
    tables = build(data)
    assert (tables.kind, tables.file, tables.data) == ("tokenizers", "tokenizer.json", data)
    assert tables.reason is not None
    assert reason in tables.reason


def test_older_files_are_read(document: dict[str, Any]) -> None:
    """`add_prefix_space` and `str_rep` of older versions give the same tables as today's keys."""
    changed = copy.deepcopy(document)
    changed["pre_tokenizer"]["pretokenizers"][1] = {
        "type": "Metaspace",
        "replacement": "▁",
        "str_rep": "▁",
        "add_prefix_space": True,
    }
    changed["normalizer"] = {"type": "Sequence", "normalizers": [document["normalizer"]]}
    today, older = (build(json.dumps(each).encode()) for each in (document, changed))
    assert today.kind == "unigram"
    assert today.data == older.data


def test_special_tokens_are_put_around_a_text(document: dict[str, Any]) -> None:
    """XLM-RoBERTa's template gives `<s>` before the text and `</s>` after it."""
    tables = build(json.dumps(document).encode(), embedding_rows=1500)
    assert (tables.kind, tables.file, tables.reason) == ("unigram", "tokenizer.bin", None)
