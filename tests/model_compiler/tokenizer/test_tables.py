"""From `tokenizer.json` to tables: covered parts are exact, others are named as a reason."""

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import tokenizers

from embedder.core.fast_tokenizers import load
from model_compiler.errors import SourceError
from model_compiler.tokenizer import tables as tables_module
from model_compiler.tokenizer import wordpiece as wordpiece_module
from model_compiler.tokenizer.byte_pair import check_byte_pair_encoding
from model_compiler.tokenizer.coverage import NotCoveredError
from model_compiler.tokenizer.tables import build
from model_compiler.tokenizer.wordpiece import character_sections
from tests.fixtures.byte_level_tokenizer import BYTE_LEVEL, byte_level_tokenizer
from tests.fixtures.gemma_tokenizer import gemma_tokenizer
from tests.fixtures.unigram_tokenizer import unigram_tokenizer
from tests.model_compiler.goldens.files import special_tokens

Change = Callable[[dict[str, Any]], object]
#: Changes that the fast tokenizers do not cover, and the reasons that they give.
Cases = dict[str, tuple[Change, str]]


@pytest.fixture(scope="module")
def wordpiece() -> dict[str, Any]:
    """Return a small vocabulary with BERT's parts."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(chr, range(33, 127)), "the", "cat"]
    words += [f"##{chr(code)}" for code in range(97, 123)]
    library = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({word: n for n, word in enumerate(words)}, unk_token="[UNK]")
    )
    library.normalizer = tokenizers.normalizers.BertNormalizer()
    library.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    library.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return json.loads(library.to_str())


@pytest.fixture(scope="module")
def gemma() -> dict[str, Any]:
    """Return a small vocabulary with Gemma's parts."""
    return json.loads(gemma_tokenizer(tokens=1500, files=3))


def changed(document: dict[str, Any], change: Change) -> bytes:
    """Return the document after a change, as bytes."""
    document = copy.deepcopy(document)
    change(document)
    return json.dumps(document).encode()


def set_option(*path: str | int, to: object) -> Change:
    """Return a change of one value, at this path of keys."""

    def change(document: dict[str, Any]) -> None:
        value: Any = document
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = to

    return change


def test_bert_gets_wordpiece_tables(wordpiece, tmp_path):
    """The tables are written under their own name, and no reason is given."""
    tables = build(json.dumps(wordpiece).encode(), embedding_rows=200)
    assert (tables.kind, tables.file, tables.reason) == ("wordpiece", "tokenizer.bin", None)
    (tmp_path / tables.file).write_bytes(tables.data)
    fast = load(tables.kind, tmp_path / tables.file)
    assert [fast.token(token_id) for token_id in fast.encode("The cats.")] == [
        "the",
        "cat",
        "##s",
        ".",
    ]


def test_each_kind_gets_tables_of_its_own(gemma, unigram):
    """Gemma's, XLM-RoBERTa's, Qwen's, RoBERTa's and ModernBERT's."""
    kind_by_data = {json.dumps(gemma).encode(): "bpe", json.dumps(unigram).encode(): "unigram"}
    for name in BYTE_LEVEL:
        kind_by_data[byte_level_tokenizer(name, tokens=800, files=2)] = "byte_level_bpe"
    for data, kind in kind_by_data.items():
        tables = build(data)
        assert (tables.kind, tables.file, tables.reason) == (kind, "tokenizer.bin", None)


def test_the_same_tokenizer_gives_the_same_bytes(wordpiece, gemma):
    """Neither the order of the vocabulary matters, nor how an older file writes a merge."""
    as_strings = [" ".join(merge) for merge in gemma["model"]["merges"]]
    for document, change in (
        *(
            (each, set_option("model", "vocab", to=dict(reversed(each["model"]["vocab"].items()))))
            for each in (wordpiece, gemma)
        ),
        (gemma, set_option("model", "merges", to=as_strings)),
    ):
        data = build(json.dumps(document).encode()).data
        assert build(changed(document, change)).data == data


NOT_COVERED_BY_WORDPIECE: Cases = {
    "normalizer": (set_option("normalizer", to={"type": "Lowercase"}), "normalizer Lowercase"),
    "no normalizer": (set_option("normalizer", to=None), "normalizer None"),
    "pre-tokenizer": (
        set_option("pre_tokenizer", to={"type": "Whitespace"}),
        "pre_tokenizer Whitespace",
    ),
    "post-processor": (
        lambda document: document.update(
            post_processor={
                "type": "Sequence",
                "processors": [{"type": "Sequence", "processors": [document["post_processor"]]}],
            }
        ),
        "post_processor Sequence",
    ),
    "single word": (
        set_option("added_tokens", 4, "single_word", to=True),
        "added token with single_word",
    ),
    "normalised token": (
        set_option("added_tokens", 4, "normalized", to=True),
        "added token with normalized",
    ),
    "stripped white space that is a token": (
        lambda document: (
            document["added_tokens"][3].update(rstrip=True),
            document["added_tokens"].append(
                dict(document["added_tokens"][4], content="\n", id=len(document["model"]["vocab"]))
            ),
        ),
        "rstrip next to one that begins with white space",
    ),
    "unknown option": (set_option("model", "max_words", to=1), "unknown max_words"),
    "ids of its own": (
        lambda document: document["added_tokens"].append(
            dict(document["added_tokens"][4], content="[NEW]", id=150)
        ),
        "ids that are not the file's own",
    ),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            set_option("normalizer", to={"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
            "cannot be read as a tokenizer",
        ),
        (
            set_option("model", "unk_token", to="<unk>"),
            r"fails on ordinary texts: WordPiece error: Missing \[UNK\] token",
        ),
        (
            set_option(
                "pre_tokenizer",
                to={
                    "type": "Split",
                    "pattern": {"Regex": "(a|aa)+$"},
                    "behavior": "Isolated",
                    "invert": False,
                },
            ),
            "fails on ordinary texts: .*retry-limit-in-match over",
        ),
        (
            set_option("post_processor", "special_tokens", "[CLS]", "ids", to=[4000]),
            "'post_processor 4000' has the id 4000",
        ),
    ],
    ids=["charsmap", "unknown token", "regular expression", "post-processor"],
)
def test_a_tokenizer_that_fails_is_refused(wordpiece, change, message, monkeypatch):
    """A tokenizer that would fail at run time, even with a panic, fails to compile."""
    # As many as outside of the tests: one text among them makes the expression fail.
    monkeypatch.setattr(tables_module, "_SAMPLE", 2500)
    with pytest.raises(SourceError, match=message):
        build(changed(wordpiece, change), embedding_rows=2000)


NOT_COVERED_BY_BPE: Cases = {
    "normalizer": (set_option("normalizer", to={"type": "NFC"}), "normalizer NFC"),
    "another replacement": (set_option("normalizer", "content", to="_"), "normalizer Replace"),
    "pre-tokenizer": (
        set_option("pre_tokenizer", "pattern", to={"String": "▁"}),
        "pre_tokenizer Split",
    ),
    "dropout": (set_option("model", "dropout", to=0.1), "dropout 0.1"),
    "prefix": (
        set_option("model", "continuing_subword_prefix", to="##"),
        "continuing_subword_prefix ##",
    ),
    "suffix": (set_option("model", "end_of_word_suffix", to="</w>"), "end_of_word_suffix </w>"),
    "no bytes": (set_option("model", "byte_fallback", to=False), "byte_fallback False"),
    "whole words first": (set_option("model", "ignore_merges", to=True), "ignore_merges True"),
    "a byte too few": (
        lambda document: document["model"]["vocab"].__setitem__(
            "<0xFG>", document["model"]["vocab"].pop("<0xFF>")
        ),
        "byte_fallback without a token for each byte",
    ),
    "merged bytes": (
        lambda document: (
            document["model"]["vocab"].update({"<0xE2>a": 1500}),
            document["model"]["merges"].append(["<0xE2>", "a"]),
            document["added_tokens"].pop(),
        ),
        "merges of bytes",
    ),
}


@pytest.fixture(scope="module")
def qwen() -> dict[str, Any]:
    """Return a small vocabulary with Qwen's parts."""
    return json.loads(byte_level_tokenizer("Qwen", tokens=800, files=2))


_COMPOSED_TOKEN = special_tokens({"e\u0301": 777})[0] | {"normalized": True, "special": False}
NOT_COVERED_BY_BYTE_LEVEL: Cases = {
    "normalizer": (set_option("normalizer", to={"type": "NFKC"}), "normalizer NFKC"),
    "another expression": (
        set_option("pre_tokenizer", "pretokenizers", 0, "pattern", "Regex", to=r"\p{L}+"),
        "the regular expression of Split",
    ),
    "a string": (
        set_option("pre_tokenizer", "pretokenizers", 0, "pattern", to={"String": " "}),
        "the pre_tokenizer's pattern String",
    ),
    "another behavior": (
        set_option("pre_tokenizer", "pretokenizers", 0, "behavior", to="Removed"),
        "the pre_tokenizer's behavior Removed",
    ),
    "inverted": (
        set_option("pre_tokenizer", "pretokenizers", 0, "invert", to=True),
        "the pre_tokenizer's invert True",
    ),
    "a space in front of each word": (
        set_option("pre_tokenizer", "pretokenizers", 1, "add_prefix_space", to=True),
        "Split, then ByteLevel with add_prefix_space",
    ),
    "two expressions": (
        set_option("pre_tokenizer", "pretokenizers", 1, "use_regex", to=True),
        "Split, then ByteLevel with use_regex",
    ),
    "another sequence": (
        lambda document: document["pre_tokenizer"]["pretokenizers"].insert(
            0, {"type": "Digits", "individual_digits": True}
        ),
        "pre_tokenizer Sequence Digits Split ByteLevel",
    ),
    "no expression": (
        lambda document: document.update(
            pre_tokenizer=document["pre_tokenizer"]["pretokenizers"][1]
        ),
        "ByteLevel without use_regex",
    ),
    "dropout": (set_option("model", "dropout", to=0.1), "dropout 0.1"),
    "byte fallback": (set_option("model", "byte_fallback", to=True), "byte_fallback True"),
    "a token that the normalizer changes": (
        set_option("added_tokens", 3, to=_COMPOSED_TOKEN),
        "normalized added token beyond ASCII: 'e\\u0301'",
    ),
    "a byte without a token": (
        lambda document: document["model"]["vocab"].__setitem__(
            "zq", document["model"]["vocab"].pop("ÿ")
        ),
        "bytes without a token",
    ),
}


@pytest.fixture(scope="module")
def unigram() -> dict[str, Any]:
    """Return a small vocabulary with XLM-RoBERTa's parts."""
    return json.loads(unigram_tokenizer(tokens=1500, files=2))


def sequence(*normalizers: dict[str, Any]) -> Change:
    """Return a change that puts normalizers behind the character map."""

    def change(document: dict[str, Any]) -> None:
        steps = [document["normalizer"], *normalizers]
        document["normalizer"] = {"type": "Sequence", "normalizers": steps}

    return change


METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
COLLAPSE = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
STRIP = {"type": "Strip", "strip_left": True, "strip_right": True}

NOT_COVERED_BY_UNIGRAM: Cases = {
    "another normalizer": (set_option("normalizer", to={"type": "NFKC"}), "normalizer NFKC"),
    "another replacement": (sequence(COLLAPSE | {"content": "x"}), "normalizer Replace"),
    "another pattern": (sequence(COLLAPSE | {"pattern": {"Regex": r"\s+"}}), "normalizer Replace"),
    "two maps": (
        lambda document: sequence(document["normalizer"])(document),
        "this order of normalizers: Precompiled",
    ),
    "another order": (sequence(COLLAPSE, STRIP), "this order of normalizers: Strip"),
    "another pre-tokenizer": (
        set_option("pre_tokenizer", to={"type": "BertPreTokenizer"}),
        "pre_tokenizer BertPreTokenizer",
    ),
    "words alone": (
        set_option("pre_tokenizer", to={"type": "WhitespaceSplit"}),
        "pre_tokenizer WhitespaceSplit",
    ),
    "three pre-tokenizers": (
        set_option(
            "pre_tokenizer", "pretokenizers", to=[{"type": "WhitespaceSplit"}, METASPACE, METASPACE]
        ),
        "pre_tokenizer WhitespaceSplit, Metaspace, Metaspace",
    ),
    "another sign": (
        set_option("pre_tokenizer", to=METASPACE | {"replacement": "_"}),
        "a pre_tokenizer with the replacement _",
    ),
    "the first of words": (
        set_option("pre_tokenizer", "pretokenizers", 1, "prepend_scheme", to="first"),
        "prepend_scheme first after WhitespaceSplit",
    ),
    "an option of the model": (
        set_option("model", "fuse_unk", to=False),
        "the model: unknown fuse_unk",
    ),
    "no bytes": (set_option("model", "byte_fallback", to=True), "byte_fallback without a token"),
    "a text twice": (
        lambda document: document["model"]["vocab"].__setitem__(10, ["<s>", -3.0]),
        "two ids of one token",
    ),
    "an empty token": (
        set_option("model", "vocab", 10, to=["", -3.0]),
        "a vocabulary with an empty token",
    ),
    "a large score": (
        set_option("model", "vocab", 10, to=["zzz", -1e300]),
        "a score that is not below 1e+30",
    ),
    "ids of its own": (
        set_option("added_tokens", 4, "id", to=20),
        "ids that are not the file's own",
    ),
    "a word of its own": (
        set_option("added_tokens", 4, "single_word", to=True),
        "an added token with single_word",
    ),
}
NOT_COVERED = {
    "wordpiece": NOT_COVERED_BY_WORDPIECE,
    "gemma": NOT_COVERED_BY_BPE,
    "qwen": NOT_COVERED_BY_BYTE_LEVEL,
    "unigram": NOT_COVERED_BY_UNIGRAM,
}


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, cases in NOT_COVERED.items() for name in cases]
)
def test_what_is_not_covered_is_declined_by_name(request, kind, name):
    """The library serves, from the file as it was, and the artifact can say why."""
    change, reason = NOT_COVERED[kind][name]
    data = changed(request.getfixturevalue(kind), change)
    if name in {"prefix", "suffix"}:
        # The library itself refuses these merges, which were made without; ask the reader alone.
        with pytest.raises(NotCoveredError, match=reason):
            check_byte_pair_encoding(json.loads(data))
        return
    tables = build(data)
    assert (tables.kind, tables.file, tables.data) == ("tokenizers", "tokenizer.json", data)
    assert tables.reason is not None
    assert reason in tables.reason


def test_another_model_is_declined_by_name():
    """A vocabulary of whole words is the library's."""
    library = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"<unk>": 0, "a": 1}, unk_token="<unk>")
    )
    tables = build(library.to_str().encode())
    assert tables.kind == "tokenizers"
    assert tables.reason == "the fast tokenizers do not cover models of type WordLevel"


def test_a_difference_to_the_library_makes_the_library_serve(wordpiece, monkeypatch):
    """Wrong tables are not written, because they are first compared with the library."""

    def wrong(**options: Any) -> Mapping[str, bytes]:
        return character_sections(**options | {"lowercase": False})

    monkeypatch.setattr(wordpiece_module, "character_sections", wrong)
    tables = build(json.dumps(wordpiece).encode())
    assert tables.kind == "tokenizers"
    assert tables.reason is not None
    assert "differs from `tokenizers` on" in tables.reason


def test_ids_past_the_embeddings_are_refused(gemma):
    """A token that the model has no embedding for would crash it at a user's text."""
    data = json.dumps(gemma).encode()
    with pytest.raises(SourceError, match=r"embeddings for 1500 tokens, and '<image_soft_token>'"):
        build(data, embedding_rows=1500)
    assert build(data, embedding_rows=1501).kind == "bpe"


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"model": {"type": "BPE"}}'])
def test_what_is_no_tokenizer_is_refused(data):
    """The library's own message is in the error."""
    with pytest.raises(SourceError, match=r"tokenizer\.json cannot be read as a tokenizer"):
        build(data)


def test_older_files_are_read(unigram):
    """`add_prefix_space` and `str_rep` of older versions give the same tables as today's keys."""
    older_step = {"type": "Metaspace", "replacement": "▁", "str_rep": "▁", "add_prefix_space": True}
    document = copy.deepcopy(unigram)
    document["pre_tokenizer"]["pretokenizers"][1] = older_step
    sequence()(document)
    today, older = (build(json.dumps(each).encode()) for each in (unigram, document))
    assert today.kind == "unigram"
    assert today.data == older.data
