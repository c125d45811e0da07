"""Unigram gives the library's ids for tokenizers like XLM-RoBERTa's."""

import copy
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedder.core.fast_tokenizers import unigram as unigram_module
from embedder.core.fast_tokenizers.table_file import TableFile
from embedder.core.fast_tokenizers.unigram import Children, TokenTrie

from .conftest import ALL_CHARACTERS, Both, both

METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
ONE_SPACE = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
ONE_SIGN = ONE_SPACE | {"content": "▁"}
STRIP_RIGHT = {"type": "Strip", "strip_left": False, "strip_right": True}
STRIP_LEFT = {"type": "Strip", "strip_left": True, "strip_right": False}
SIGNS = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
#: The normalizers behind the character map, or None for no normalizer at all, and the
#: pre-tokenizer, or "words" for that of XLM-RoBERTa.
FORMS: dict[str, tuple[list[dict[str, Any]] | None, dict[str, Any] | str | None]] = {
    "XLM-RoBERTa": ([], "words"),
    "one space": ([ONE_SPACE], "words"),
    "no split at other white space": ([ONE_SPACE], METASPACE),
    "conversion of SentencePiece": ([STRIP_RIGHT, ONE_SIGN], METASPACE),
    "only the first": ([STRIP_RIGHT, ONE_SIGN], METASPACE | {"prepend_scheme": "first"}),
    "none in front": ([ONE_SPACE], METASPACE | {"prepend_scheme": "never"}),
    "every space": ([], METASPACE),
    "spaces inside tokens": ([], METASPACE | {"split": False}),
    "no pre-tokenizer": ([SIGNS], None),
    "stripped on the left": ([STRIP_LEFT, ONE_SPACE], METASPACE),
    "no character map": (None, METASPACE),
    "no character map, words": (None, "words"),
    "nothing": (None, None),
}
BITS_OF_TEXT = (
    *("a", "in", "the", " ", "  ", "▁", "\n", "\r\n", "\t", "\xa0", "\u3000", "\x1c", "\x85"),
    *("<", "<mask>", "＜mask＞", "é", "e\u0301", "™", "™\u0301", "\u0301", "¨", "\u0600", "\u200d"),
    *("क\u094d", "\u0958\u0301", "©", "東", "😀", "\u0344", "\u200b", "\x01"),
)


def in_form(document: dict[str, Any], form: str) -> dict[str, Any]:
    normalizers, pre_tokenizer = FORMS[form]
    changed = copy.deepcopy(document)
    if normalizers is None:
        changed["normalizer"] = None
    elif normalizers:
        changed["normalizer"] = {
            "type": "Sequence",
            "normalizers": [document["normalizer"], *normalizers],
        }
    if pre_tokenizer != "words":
        changed["pre_tokenizer"] = pre_tokenizer
    return changed


@pytest.mark.parametrize("form", FORMS)
def test_ids_are_the_librarys_in_each_form(unigram_document, tmp_path, form):
    """Every sequence of steps that transformers writes gives the library's ids."""
    both(in_form(unigram_document, form), tmp_path).check(count=400)


@pytest.mark.parametrize("form", ["XLM-RoBERTa", "only the first", "every space"])
def test_added_tokens_that_are_matched_after_normalization_are_found(
    unigram_document, tmp_path, form
):
    """Older files have a `<mask>` that also matches what normalization makes one, `＜mask＞`."""
    document = in_form(unigram_document, form)
    mask = document["added_tokens"][-1]
    mask["normalized"] = True
    tokenizer = both(document, tmp_path)
    texts = ["a <mask> b", "a \n<mask>b", "x ＜ｍask＞", "<s> <mask></s>", "<mas", "™ <mask>"]
    tokenizer.check(*texts, "＜mask＞", count=400)
    assert tokenizer.fast.encode("＜mask＞") == [mask["id"]]


@pytest.mark.parametrize("form", ["XLM-RoBERTa", "spaces inside tokens"])
def test_unknown_text_becomes_its_bytes(unigram_document, tmp_path, form):
    """Unknown characters next to each other become the bytes of all."""
    document = in_form(unigram_document, form)
    model = document["model"]
    model["byte_fallback"] = True
    model["vocab"][-1:-1] = [[f"<0x{byte:02X}>", -30.0] for byte in range(256)]
    document["added_tokens"][-1]["id"] += 256
    tokenizer = both(document, tmp_path)
    tokenizer.check(count=400)
    unknown = "\U0001f9ff\U0001f9ff"
    of_bytes = map(tokenizer.fast.token, tokenizer.fast.encode(f"a{unknown}b")[1:-1])
    assert [*of_bytes] == [f"<0x{byte:02X}>" for byte in unknown.encode()]


@given(st.lists(st.sampled_from(BITS_OF_TEXT)).map("".join))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_clusters_spaces_and_added_tokens_meet_as_in_the_library(unigram, unigram_metaspace, text):
    """Marks, spaces of every kind and incomplete tokens match in any combination."""
    assert unigram.agree(text)
    assert unigram_metaspace.agree(text)


def test_a_mark_behind_a_replaced_character_is_lost(unigram):
    """The library replaces a whole grapheme cluster, if it is short, by what its start becomes."""
    assert unigram.fast.encode("™\u0301") == unigram.fast.encode("TM")
    assert unigram.fast.encode("™\u0301\u0301") != unigram.fast.encode("TM")
    texts = ["™\u0301", "™\u0301\u0301", "👁\u200d™\u0301", "क\u094d\u0958\u0301"]
    assert unigram.differing(texts) == []


def test_of_equal_sums_the_first_is_taken(unigram_document, tmp_path):
    """Ties between ways to take a piece apart are decided as in the library."""
    document = copy.deepcopy(unigram_document)
    special = document["model"]["vocab"][:4]
    tied = [["▁", -1.0], *([letter, -1.0] for letter in "abc"), ["ab", -2.0], ["bc", -2.0]]
    tied += [["▁a", -2.0], ["abc", -3.0], ["▁ab", -3.0], ["ca", -2.0], ["cab", -3.0]]
    document["model"]["vocab"] = [*special, *tied, ["<mask>", 0.0]]
    document["added_tokens"][-1]["id"] = len(special) + len(tied)
    tokenizer = both(document, tmp_path)
    texts = ["".join(letters) for letters in product("abcx", repeat=6)]
    assert tokenizer.differing(texts) == []


def test_scores_are_the_librarys_to_the_last_bit(unigram_document, tmp_path):
    """The library reads some numbers as the next one, which decides between ways of one sum."""
    document = copy.deepcopy(unigram_document)
    special = document["model"]["vocab"][:4]
    generator = Random(5)
    runs = [["*" * size, -size - generator.random()] for size in (1, 2, 3, 5, 7, 12, 15)]
    document["model"]["vocab"] = [*special, ["▁", -3.7262644767761230], *runs, ["<mask>", 0.0]]
    document["added_tokens"][-1]["id"] = len(special) + 1 + len(runs)
    assert both(document, tmp_path).differing("*" * size for size in range(1, 400)) == []


@pytest.fixture
def trie(unigram: Both) -> TokenTrie:
    """Return a trie of which no part was read."""
    return TokenTrie(TableFile(str(unigram.path)))


def size(children: Children) -> int:
    return len(children) + sum(size(node[1]) for node in children.values() if node and node[1])


def test_each_token_is_found(trie, unigram):
    """A token's node has its id and its length; a text that begins none has no node."""
    vocabulary = unigram.library.get_vocab()
    nodes = {text: trie.find(text) for text in vocabulary}
    assert {text: node and (node[2], node[3]) for text, node in nodes.items()} == {
        text: (token_id, len(text)) for text, token_id in vocabulary.items()
    }
    assert trie.find("") is None
    assert trie.find("<s>!") is None
    assert trie.find("\U0010ffff") is None


def test_the_part_in_memory_is_bounded(trie, monkeypatch):
    """At the limit the trie is emptied, and later look-ups give the same results."""
    before = trie.find("▁the")
    monkeypatch.setattr(unigram_module, "_NODES", 100)
    sizes = []
    for character in ALL_CHARACTERS[:5000]:
        trie.find(character)
        sizes.append(size(trie.root))
    assert max(sizes) <= 100
    after = trie.find("▁the")
    assert before is not None
    assert after is not None
    assert (before[0], before[2:]) == (after[0], after[2:])
