"""Byte pair encoding gives the library's ids for tokenizers like Gemma's."""

import copy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import both

BITS_OF_TEXT = (
    *("a", "e", "in", " ", "  ", "▁", "\n", "\n\n", "\t"),
    *("<", "<b>", "</", "<0x41>", "é", "東", "😀"),
)


@given(st.lists(st.sampled_from(BITS_OF_TEXT)).map("".join))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_spaces_and_added_tokens_meet_as_in_the_library(gemma, text):
    """Runs of spaces and newlines, incomplete tags and bytes match in any combination."""
    assert gemma.agree(text)


def test_a_vocabulary_of_bytes_alone_is_enough(gemma_document, tmp_path):
    """Without merges, every character becomes its bytes, including the symbol for a space."""
    document = gemma_document | {"added_tokens": [], "post_processor": None}
    document["model"] = document["model"] | {
        "vocab": {"<unk>": 256, **{f"<0x{byte:02X}>": byte for byte in range(256)}},
        "merges": [],
    }
    variant = both(document, tmp_path)
    assert variant.fast.encode("a b") == [97, *"▁".encode(), 98]
    variant.check()


def test_added_tokens_that_are_normalised_are_found_after_it(gemma_document, tmp_path):
    """Normalized added tokens match after space replacement, and after other added tokens."""
    document = copy.deepcopy(gemma_document)
    size = 1 + max(token["id"] for token in document["added_tokens"])
    for number, content in enumerate(("two words", "▁qx", " qy", "qz", "<b>c")):
        document["added_tokens"].append(
            {
                "id": size + number,
                "content": content,
                "single_word": False,
                "lstrip": number == 3,
                "rstrip": False,
                "normalized": True,
                "special": False,
            }
        )
    texts = ["two words", "two▁words qx", "a  qy qz", "<b>c <b> c", "▁qx qx", " qy▁qy", "q qqz"]
    both(document, tmp_path).check(*texts)


@pytest.mark.parametrize("glue", ["a", "."])
def test_merges_across_a_space_are_the_librarys(gemma_document, tmp_path, glue):
    """Words are not split at a space that a token crosses."""
    document = copy.deepcopy(gemma_document)
    document["added_tokens"].pop()  # its id, after the vocabulary, is needed below
    model = document["model"]
    size = len(model["vocab"])
    model["vocab"] |= {f"{glue}▁": size, f"{glue}▁b": size + 1}
    model["merges"] = [[glue, "▁"], *model["merges"], [f"{glue}▁", "b"]]
    texts = [f"x{glue} bar", f"{glue} {glue} b", f"{glue}  b", f" {glue} "]
    both(document, tmp_path).check(*texts, "in the house of a bee.")
