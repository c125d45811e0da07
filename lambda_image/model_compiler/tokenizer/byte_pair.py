"""Byte pair encoding as Gemma has it: what is covered, ids of characters, and merges."""

from array import array
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate

import tokenizers

from model_compiler.tokenizer.coverage import Json, check_options, not_covered
from model_compiler.tokenizer.table_file import CHARACTERS, PAGE, deduplicated, id_slots

#: `fuse_unk` is about unknown tokens: with a token for each byte there are none.
BPE_OPTIONS: Mapping[str, tuple[object, ...]] = {
    "dropout": (None,),
    "continuing_subword_prefix": (None,),
    "end_of_word_suffix": (None,),
    "fuse_unk": (None, True),
    "byte_fallback": (True,),
    "ignore_merges": (None,),
}
#: The keys of a model that have any value.
BPE_KEYS = {"type", "vocab", "merges", "unk_token"}
#: Ranks and ids have 20 bits each in a packed merge.
_MOST = 1 << 20
_SPACE = "▁"


def check_byte_pair_encoding(document: Json) -> None:
    """Check that the fast BPE covers the normalizer, pre-tokenizer and model of Gemma."""
    replace_spaces = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    if document.get("normalizer") != replace_spaces:
        not_covered("normalizer", (document.get("normalizer") or {}).get("type"))
    # The normalizer has removed all spaces, so the pre-tokenizer has nothing to split.
    split = {"type": "Split", "pattern": {"String": " "}, "invert": False}
    pre_tokenizer = dict(document.get("pre_tokenizer") or split)
    pre_tokenizer.pop("behavior", None)
    if pre_tokenizer != split:
        not_covered("pre_tokenizer", pre_tokenizer.get("type"))
    model = document["model"]
    check_options(model, BPE_OPTIONS, BPE_KEYS, "the model")
    if any(f"<0x{byte:02X}>" not in model["vocab"] for byte in range(256)):
        not_covered("byte_fallback without", "a token for each byte")


def byte_pair_sections(document: Json, model: tokenizers.models.BPE) -> dict[str, bytes]:
    """Return the sections that only a BPE file has, as `fast_tokenizers.bpe` reads them."""
    vocabulary = document["model"]["vocab"]
    bytes_ids = [vocabulary[f"<0x{byte:02X}>"] for byte in range(256)]
    pages, ids_of_characters = _characters(vocabulary)
    # The characters that some merge joins to a space after them. Between any other character and a
    # space no merge ever reaches across, so that words can be encoded one by one.
    merges = _ranked_pairs(document["model"]["merges"])
    glued = {left[-1] for left, right in merges if right[0] == _SPACE and left[-1] != _SPACE}
    return {
        "byte_ids": array("I", bytes_ids).tobytes(),
        "char_pages": pages,
        "char_ids": ids_of_characters,
        **merge_sections(document, model, apart=bytes_ids),
        "glued": "".join(sorted(glued)).encode(),
    }


def merge_sections(
    document: Json, model: tokenizers.models.BPE, *, apart: Collection[int] = ()
) -> dict[str, bytes]:
    """Return the merges, as the embedder's `merges` reads them, and the look-up of whole tokens.

    No merge may touch an id of `apart`. The library's `model` is asked what each token's own text
    becomes.
    """
    vocabulary, merges = document["model"]["vocab"], document["model"]["merges"]
    size = 1 + max(vocabulary.values())
    if size > _MOST or len(merges) > _MOST:
        not_covered("a vocabulary or merges over 2^20")
    fixed = set(apart)
    rows: list[list[int]] = [[] for _ in range(size)]
    for (left, right), rank in _ranked_pairs(merges).items():
        ids = vocabulary[left], vocabulary[right], vocabulary[left + right]
        if not fixed.isdisjoint(ids):
            not_covered("merges of bytes")
        rows[ids[0]].append(ids[1] << 40 | rank << 20 | ids[2])
    # The tokens that their text alone becomes: nearly all of them.
    whole = {
        text: token_id
        for text, token_id in vocabulary.items()
        if len(text) > 1 and [token.id for token in model.tokenize(text)] == [token_id]
    }
    return {
        "merge_starts": array("I", accumulate(map(len, rows), initial=0)).tobytes(),
        "merges": array("Q", [merge for row in rows for merge in sorted(row)]).tobytes(),
        "whole": id_slots(whole),
    }


def _ranked_pairs(merges: Sequence[str | Sequence[str]]) -> dict[tuple[str, str], int]:
    """Return the rank of each pair; of a pair that is listed twice the last rank counts."""
    pairs = {}
    for rank, merge in enumerate(merges):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        pairs[left, right] = rank
    return pairs


def _characters(vocabulary: Mapping[str, int]) -> tuple[bytes, bytes]:
    """Return the pages and the ids, plus 1, of all characters; 0 if a character has no token."""
    ids = {ord(token): token_id + 1 for token, token_id in vocabulary.items() if len(token) == 1}
    return deduplicated(
        array("I", [ids.get(code, 0) for code in range(start, start + PAGE)]).tobytes()
        for start in range(0, CHARACTERS, PAGE)
    )
