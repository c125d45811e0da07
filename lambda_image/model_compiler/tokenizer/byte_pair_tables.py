"""Tables for byte pair encoding: the first id of each character, and the merges by their halves."""

from array import array
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate

import tokenizers

from model_compiler.tokenizer.coverage import NotCoveredError
from model_compiler.tokenizer.string_tables import id_slots

__all__ = ["byte_pair_sections", "merge_sections"]

_PAGE = 256
_CHARACTERS = 0x110000
#: Ranks and ids have 20 bits each in a packed merge.
_MOST = 1 << 20
_SPACE = "▁"


def byte_pair_sections(
    model: tokenizers.models.BPE,
    vocabulary: Mapping[str, int],
    merges: Sequence[str | Sequence[str]],
) -> dict[str, bytes]:
    """Return the sections that only a BPE file has, as `fast_tokenizers.bpe` reads them.

    Args:
        model: The library's, which is asked what each token's own text becomes.
        vocabulary: Ids by text.
        merges: Pairs of texts, best first.

    Raises:
        NotCoveredError: If the numbers are too large, or merges touch bytes.
    """
    bytes_ids = [vocabulary[f"<0x{byte:02X}>"] for byte in range(256)]
    pages, ids_of_characters = _characters(vocabulary)
    return {
        "byte_ids": array("I", bytes_ids).tobytes(),
        "char_pages": pages,
        "char_ids": ids_of_characters,
        **merge_sections(model, vocabulary, merges, apart=bytes_ids),
        "glued": "".join(sorted(_glued(_ranked_pairs(merges)))).encode(),
    }


def merge_sections(
    model: tokenizers.models.BPE,
    vocabulary: Mapping[str, int],
    merges: Sequence[str | Sequence[str]],
    *,
    apart: Collection[int] = (),
) -> dict[str, bytes]:
    """Return the merges, as the embedder's `merges` reads them, and the look-up of whole tokens.

    Args:
        model: The library's, which is asked what each token's own text becomes.
        vocabulary: Ids by text.
        merges: Pairs of texts, best first.
        apart: Ids that no merge may touch.

    Raises:
        NotCoveredError: If the numbers are too large, or a merge touches an id of `apart`.
    """
    size = 1 + max(vocabulary.values())
    if size > _MOST or len(merges) > _MOST:
        raise NotCoveredError("the fast tokenizers do not cover a vocabulary or merges over 2^20")
    fixed = set(apart)
    rows: list[list[int]] = [[] for _ in range(size)]
    for (left, right), rank in _ranked_pairs(merges).items():
        ids = vocabulary[left], vocabulary[right], vocabulary[left + right]
        if not fixed.isdisjoint(ids):
            raise NotCoveredError("the fast tokenizers do not cover merges of bytes")
        rows[ids[0]].append(ids[1] << 40 | rank << 20 | ids[2])
    return {
        "merge_starts": array("I", accumulate(map(len, rows), initial=0)).tobytes(),
        "merges": array("Q", [merge for row in rows for merge in sorted(row)]).tobytes(),
        "whole": id_slots(_whole(model, vocabulary)),
    }


def _whole(model: tokenizers.models.BPE, vocabulary: Mapping[str, int]) -> dict[str, int]:
    """Return the tokens whose own text becomes that one token: nearly all of them."""
    return {
        text: token_id
        for text, token_id in vocabulary.items()
        if len(text) > 1 and [token.id for token in model.tokenize(text)] == [token_id]
    }


def _ranked_pairs(merges: Sequence[str | Sequence[str]]) -> dict[tuple[str, str], int]:
    """Return the rank of each pair; of a pair that is listed twice the last rank counts."""
    pairs = {}
    for rank, merge in enumerate(merges):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        pairs[left, right] = rank
    return pairs


def _glued(pairs: Mapping[tuple[str, str], int]) -> set[str]:
    """Return the characters that some merge joins to a space after them.

    Between any other character and a space no merge ever reaches across, so that words can be
    encoded one by one.
    """
    return {left[-1] for left, right in pairs if right[0] == _SPACE and left[-1] != _SPACE}


def _characters(vocabulary: Mapping[str, int]) -> tuple[bytes, bytes]:
    """Return the pages and the ids, plus 1, of all characters; 0 if a character has no token."""
    ids = {ord(token): token_id + 1 for token, token_id in vocabulary.items() if len(token) == 1}
    numbers: dict[bytes, int] = {}
    pages = array("H")
    for start in range(0, _CHARACTERS, _PAGE):
        page = array("I", [ids.get(code, 0) for code in range(start, start + _PAGE)]).tobytes()
        pages.append(numbers.setdefault(page, len(numbers)))
    return pages.tobytes(), b"".join(numbers)
