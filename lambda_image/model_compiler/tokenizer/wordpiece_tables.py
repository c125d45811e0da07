"""Tables for WordPiece: look-up by text, prefixes of tokens, and BERT's characters."""

from array import array
from collections.abc import Mapping
from typing import Any

from model_compiler.tokenizer.character_tables import character_sections
from model_compiler.tokenizer.string_tables import id_slots, prefix_bits

__all__ = ["wordpiece_sections"]


def wordpiece_sections(document: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the sections that only a WordPiece file has, as the embedder's `wordpiece` reads them.

    Args:
        document: The `tokenizer.json`, which `coverage.check_wordpiece` has accepted.

    Raises:
        NotCoveredError: If the vocabulary is too large, or a mark is of an unknown kind.
    """
    model, normalizer = document["model"], document["normalizer"]
    vocabulary = model["vocab"]
    # No text is longer than a u32 can say.
    longest = min(model["max_input_chars_per_word"], (1 << 32) - 1)
    limits = [vocabulary[model["unk_token"]], longest]
    return {
        "words": array("I", limits).tobytes(),
        "token_slots": id_slots(vocabulary),
        "prefixes": prefix_bits(vocabulary),
        "continuation": model["continuing_subword_prefix"].encode(),
        **character_sections(
            clean_text=normalizer["clean_text"],
            handle_chinese_chars=normalizer["handle_chinese_chars"],
            strip_accents=normalizer.get("strip_accents"),
            lowercase=normalizer["lowercase"],
        ),
    }
