"""Tables of strings: the texts of tokens, look-up by text, and the added tokens."""

from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate
from zlib import crc32

import tokenizers

__all__ = ["added_token_sections", "string_slots", "text_sections"]


def text_sections(texts: Sequence[str]) -> dict[str, bytes]:
    """Return the sections with the text of each token, by id; no text where there is no token."""
    utf8 = [text.encode() for text in texts]
    return {
        "token_offsets": array("I", accumulate(map(len, utf8), initial=0)).tobytes(),
        "token_text": b"".join(utf8),
    }


def string_slots(ids: Mapping[str, int]) -> bytes:
    """Return an open-addressed hash table of these strings, at most half full."""
    size = 1 << (2 * len(ids) - 1).bit_length()
    slots = array("I", bytes(4 * size))
    # In the order of ids: the tables do not depend on the order of the JSON.
    for text, token_id in sorted(ids.items(), key=lambda item: item[1]):
        slot = crc32(text.encode()) & (size - 1)
        while slots[slot]:
            slot = (slot + 1) & (size - 1)
        slots[slot] = token_id + 1
    return slots.tobytes()


def added_token_sections(
    name: str, tokens: Mapping[int, tokenizers.AddedToken], *, space: str = " "
) -> dict[str, bytes]:
    """Return the sections of a list of added tokens, as `embedder.tokenizers.added_tokens` reads.

    Args:
        name: what the sections' names begin with.
        tokens: by id.
        space: what a space in a token is matched as.
    """
    listed = sorted(
        (token.content.replace(" ", space), token_id, token.lstrip | token.rstrip << 1)
        for token_id, token in tokens.items()
    )
    groups = array("I")
    for index, (text, _, _) in enumerate(listed):
        if groups and groups[-3] == ord(text[0]):
            groups[-1] = index + 1
        else:
            groups.extend((ord(text[0]), index, index + 1))
    utf8 = [text.encode() for text, _, _ in listed]
    return {
        f"{name}.text": b"".join(utf8),
        f"{name}.ends": array("I", accumulate(map(len, utf8))).tobytes(),
        f"{name}.ids": array("I", [token_id for _, token_id, _ in listed]).tobytes(),
        f"{name}.strips": bytes(strips for _, _, strips in listed),
        f"{name}.groups": groups.tobytes(),
    }
