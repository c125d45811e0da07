"""Precompiled character maps are read and written as the library reads them."""

import struct
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers

from embedder.core.fast_tokenizers.character_map import CHARACTER_CLASSES
from model_compiler.tokenizer.character_map import character_kinds, read_charsmap, write_charsmap
from model_compiler.tokenizer.coverage import NotCoveredError

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4)


@given(st.dictionaries(TEXTS.filter(lambda key: 0 < len(key.encode()) < 6), TEXTS, min_size=1))
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read_by_us_and_by_the_library(replaced):
    """Each key of one character becomes its text; the keys that are read are those written."""
    data = write_charsmap(replaced)
    assert read_charsmap(data) == replaced
    library = normalizers.Precompiled(data)
    for key, text in replaced.items():
        if len(key) == 1:
            assert library.normalize_str(key) == text


def test_keys_that_are_too_long_for_the_library_are_left_out():
    """A cluster of 6 bytes or more is never looked up."""
    replaced = {"\u1100\u1161": "가", "e\u0301": "é"}
    data = write_charsmap(replaced)
    assert read_charsmap(data) == {"e\u0301": "é"}
    assert normalizers.Precompiled(data).normalize_str("\u1100\u1161e\u0301") == "\u1100\u1161é"


def test_every_key_of_a_large_map_is_read():
    """A map of all characters of two bytes, with several blocks in its trie, is read back."""
    replaced = {chr(code): f"{code:x}" for code in range(0x80, 0x800)}
    assert read_charsmap(write_charsmap(replaced)) == replaced


@pytest.mark.parametrize(
    "data",
    [b"", b"\1\2", struct.pack("<I", 400), write_charsmap({"a": "b"}).replace(b"b\0", b"\xff\0")],
    ids=["empty", "no size", "no trie", "a text is no UTF-8"],
)
def test_a_damaged_map_is_declined(data):
    """What cannot be read is a reason for the library to serve."""
    with pytest.raises(NotCoveredError, match="do not cover a damaged character map"):
        read_charsmap(data)


def test_too_many_keys_cannot_be_written(monkeypatch):
    """The error has their number."""
    monkeypatch.setattr("model_compiler.tokenizer.character_map._OFFSET", 30)
    with pytest.raises(ValueError, match="A character map of 2 keys cannot be written"):
        write_charsmap({"a": "b", "\u0430": "c"})


def test_kinds_are_those_of_unicode():
    """Characters that UAX 29 names as examples of a property have its letter."""
    letters = character_kinds()
    examples = {
        "c": "\x00\x01\x7f\u200b\u2028\ufeff\U000e0001",
        "r": "\r",
        "n": "\n",
        "e": "\u0301\u0e31\u3099\ufe0f\U0001f3fb",
        "l": "\u094d\u09cd\u0d4d",
        "u": "\u200c",
        "z": "\u200d",
        "s": "\u0903\u0e33\u0bc6",
        "p": "\u0600\u06dd\u0d4e\U000110bd",
        "x": "©®™☺\U0001f600",
        "k": "\u0915\u0958\u0d15",
    }
    by_letter = {
        letter: "".join(character for character in characters if letters.get(character) == letter)
        for letter, characters in examples.items()
    }
    assert by_letter == examples
    assert not {"a", "é", "東", "\u1100", "\U0001f1e6", " ", "#"} & letters.keys()


def test_every_letter_occurs():
    """Each kind that the embedder knows has characters, but the ordinary one has none listed."""
    assert set(Counter(character_kinds().values())) == set(CHARACTER_CLASSES) - {"o"}
