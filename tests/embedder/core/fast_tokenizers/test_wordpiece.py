"""WordPiece gives the library's ids for any text and any normalizer options."""

import copy

import pytest

from .conftest import both

OPTIONS = [
    pytest.param({"lowercase": False, "strip_accents": None}, id="cased"),
    pytest.param({"lowercase": True, "strip_accents": False}, id="accents-kept"),
    pytest.param({"lowercase": False, "strip_accents": True, "clean_text": False}, id="uncleaned"),
    pytest.param({"handle_chinese_chars": False, "clean_text": False}, id="chinese-words"),
]


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
def test_every_option_of_the_normalizer_is_the_librarys(minilm_document, tmp_path, options):
    """Cased models, models that keep accents, and models that do not clean texts are covered."""
    document = copy.deepcopy(minilm_document)
    document["normalizer"] |= options
    both(document, tmp_path).check()


def test_marks_that_stay_are_sorted_as_unicode_says(minilm):
    """Spacing and stripped marks in every order give the same result as the library's sorting."""
    marks = "\u0301\u0316\u302e\u302f\u1b44\u093c\u0345\u0334\u0903\U0001d165\U0001d16d"
    marks += "\u0344\u0f73é\U0001d15e\u0340\U00011442"
    texts = [f"{base}{a}{b}{c}x" for base in ("q", "") for a in marks for b in marks for c in marks]
    # U+0340 is U+0300, so the Newa virama behind it is moved to its place.
    assert minilm.differing([*texts, "\u0340\U00011442"]) == []


def test_a_roberta_post_processor_puts_its_tokens_around_a_text(minilm_document, tmp_path):
    """MPNet has one, and its `<mask>` takes the space before it along."""
    document = copy.deepcopy(minilm_document)
    for token in document["added_tokens"]:
        token["lstrip"] = token["rstrip"] = token["content"] == "[MASK]"
    document["post_processor"] = {
        "type": "RobertaProcessing",
        "sep": ["[SEP]", 102],
        "cls": ["[CLS]", 101],
        "trim_offsets": True,
        "add_prefix_space": False,
    }
    variant = both(document, tmp_path)
    assert (variant.fast.prefix, variant.fast.suffix) == ((101,), (102,))
    variant.check("a  [MASK] b", "  [MASK]\u3000", "[MASK] [MASK]")


def test_special_tokens_in_a_text_are_themselves(minilm):
    """`[SEP]` in a text is the separator, as in the library; `[sep]` is ordinary text."""
    assert minilm.fast.encode("a [SEP]b[MASK]") == [1037, 102, 1038, 103]
    assert minilm.fast.encode("[sep]") == minilm.ids("[sep]")
    assert len(minilm.fast.encode("[sep]")) > 1


def test_a_word_over_the_limit_is_unknown(minilm):
    """A word of 100 characters is split into tokens, and one of 101 is `[UNK]`."""
    assert len(minilm.fast.encode("a" * 100)) > 1
    assert minilm.fast.encode("a" * 101) == [100]


def test_a_token_is_spelled_as_in_the_vocabulary(minilm):
    """Ids become the texts of their tokens, and an unknown id is an error."""
    tokens = [minilm.fast.token(token_id) for token_id in (0, 101, 1996, 2015)]
    assert tokens == ["[PAD]", "[CLS]", "the", "##s"]
    for unknown in (30522, -1):
        with pytest.raises(ValueError, match=f"No token has the id {unknown}"):
            minilm.fast.token(unknown)


def test_the_token_with_the_id_0_is_a_token(minilm_document, tmp_path):
    """The vocabulary may start with part of a word instead of `[PAD]`."""
    document = copy.deepcopy(minilm_document)
    vocabulary = document["model"]["vocab"]
    vocabulary["[PAD]"], vocabulary["##izing"] = vocabulary["##izing"], 0
    for token in document["added_tokens"]:
        if token["content"] == "[PAD]":
            token["id"] = vocabulary["[PAD]"]
    variant = both(document, tmp_path)
    assert 0 in variant.fast.encode("tokenizing")
    assert variant.differing(["tokenizing", "tokenizing it", "izing"]) == []


def test_a_token_that_strips_takes_white_space_along(minilm_document, tmp_path):
    """`lstrip` and `rstrip` strip the same characters as the library, and never another token."""
    document = copy.deepcopy(minilm_document)
    for token in document["added_tokens"]:
        token["lstrip"] = token["content"] in {"[MASK]", "[SEP]"}
        token["rstrip"] = token["content"] in {"[MASK]", "[CLS]"}
    texts = ["a [MASK] b", "[CLS] \u3000[MASK]", "[MASK]\x1c[SEP]", " [MASK][MASK] \u2003 [SEP] "]
    both(document, tmp_path).check(*texts)
