"""The kinds of characters agree with Unicode's rules for grapheme clusters."""

from collections import Counter

from embedder.core.fast_tokenizers.character_map import KINDS
from model_compiler.tokenizer.grapheme_tables import character_kinds


def test_kinds_are_those_of_unicode() -> None:
    """Characters that UAX 29 names as examples of a property have its letter."""
    kinds = character_kinds()
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
    found = {
        letter: "".join(character for character in characters if kinds.get(character) == letter)
        for letter, characters in examples.items()
    }
    assert found == examples
    assert not {"a", "é", "東", "\u1100", "\U0001f1e6", " ", "#"} & kinds.keys()


def test_every_letter_occurs() -> None:
    """Each kind that the embedder knows has characters, but the ordinary one has none listed."""
    assert set(Counter(character_kinds().values())) == set(KINDS) - {"o"}
