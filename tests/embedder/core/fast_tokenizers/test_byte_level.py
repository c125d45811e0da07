"""Byte-level BPE gives the library's ids with the parts of four models."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import Both, both

NAMES = ("roberta", "modernbert", "qwen", "eurobert")
#: What the regular expressions treat in a way of its own, and tokens that strip.
BITS_OF_TEXT = (
    *(" ", "  ", "\t", "\n", "\r\n", "\n\n", "\x0b", "\x85", "\xa0", "\u2028", "\u3000", "\x1c"),
    *("a", "Z", "é", "東", "1", "१", "²", "½", "_", ".", "!?", "'", "😀", "\ufeff"),
    *("'s", "'S", "'\u017f", "'ll", "'Re", "'VE", "'d", "'m", "'t"),
    *("<mask>", "[MASK]", "</s>", "<|endoftext|>", "<|im", "|||IP_ADDRESS|||", "[unused1]"),
)


@pytest.fixture(params=NAMES)
def any_kind(request: pytest.FixtureRequest) -> Both:
    tokenizer: Both = request.getfixturevalue(request.param)
    return tokenizer


@given(st.lists(st.sampled_from(BITS_OF_TEXT)).map("".join))
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_words_begin_and_end_as_in_the_library(any_kind, text):
    """White space, line breaks, contractions and added tokens meet in any order."""
    assert any_kind.agree(text)


def test_a_space_may_be_put_in_front(roberta, tmp_path):
    """With `add_prefix_space`, each text and each part after an added token begins with a space."""
    document = json.loads(roberta.library.to_str())
    document["pre_tokenizer"]["add_prefix_space"] = True
    document["post_processor"]["add_prefix_space"] = True
    variant = both(document, tmp_path)
    assert variant.fast.encode("the") == roberta.fast.encode(" the") != roberta.fast.encode("the")
    assert variant.fast.encode("") == []
    texts = ["the", " the", "  the", "\tthe", "é", "<mask>the", "a <mask> é", "</s></s>x", "\n"]
    variant.check(*texts)


def test_a_word_of_the_vocabulary_may_ignore_merges(qwen, tmp_path):
    """With `ignore_merges`, a word that is a token is that token, even if no merge makes it."""
    document: dict[str, Any] = json.loads(qwen.library.to_str())
    model = document["model"]
    model["merges"] = [merge for merge in model["merges"] if "".join(merge) != "Ġreturn"]
    assert len(both(document, tmp_path).fast.encode("we return")) > 2
    model["ignore_merges"] = True
    variant = both(document, tmp_path)
    assert variant.fast.encode("we return")[-1] == model["vocab"]["Ġreturn"]
    variant.check()
