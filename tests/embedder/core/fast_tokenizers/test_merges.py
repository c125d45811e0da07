"""Merging gives what the definition of byte pair encoding gives, in lists of any length."""

from array import array
from collections.abc import Mapping
from itertools import accumulate, pairwise
from random import Random

import pytest

from embedder.core.fast_tokenizers.merges import Merges
from embedder.core.fast_tokenizers.table_file import TableFile
from model_compiler.tokenizer.table_file import table_file

#: The ids of characters; those above are of merged tokens.
CHARACTERS = 3


def random_merges(seed: int) -> dict[tuple[int, int], tuple[int, int]]:
    """Return rank and merged id by pair; a longer token's merge may have the lower rank."""
    random = Random(seed)
    ids: dict[tuple[int, ...], int] = {(character,): character for character in range(CHARACTERS)}
    pairs = {}
    for _ in range(40):
        left, right = random.choices(list(ids), k=2)
        pairs[ids[left], ids[right]] = ids.setdefault(left + right, len(ids))
    ranks = random.sample(range(len(pairs)), len(pairs))
    return {pair: (rank, pairs[pair]) for pair, rank in zip(pairs, ranks, strict=True)}


def defined(ids: list[int], merges: Mapping[tuple[int, int], tuple[int, int]]) -> list[int]:
    """Carry out the best merge, the leftmost of equals, until there is none."""
    while candidates := [
        (*merges[pair], at) for at, pair in enumerate(pairwise(ids)) if pair in merges
    ]:
        _, merged, at = min(candidates, key=lambda merge: (merge[0], merge[2]))
        ids = [*ids[:at], merged, *ids[at + 2 :]]
    return ids


@pytest.mark.parametrize("seed", range(30))
def test_merging_is_the_definitions(tmp_path, seed):
    """Short lists and long ones, which take another way, give the same as the definition."""
    merges = random_merges(seed)
    size = 1 + max(merged for _, merged in merges.values())
    rows: list[list[int]] = [[] for _ in range(size)]
    for (left, right), (rank, merged) in merges.items():
        rows[left].append(right << 40 | rank << 20 | merged)
    path = tmp_path / "merges.bin"
    path.write_bytes(
        table_file(
            {
                "merge_starts": array("I", accumulate(map(len, rows), initial=0)).tobytes(),
                "merges": array("Q", [merge for row in rows for merge in sorted(row)]).tobytes(),
            }
        )
    )
    merge = Merges(TableFile(str(path))).merge
    random = Random(seed)
    for length in (0, 1, 2, 7, 40, 41, 100, 200):
        ids = random.choices(range(CHARACTERS), k=length)
        assert list(merge(list(ids))) == defined(ids, merges)
    run = [0] * 150
    assert list(merge(list(run))) == defined(run, merges)
