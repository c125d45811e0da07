"""Merges adjacent tokens in the order of the merges' ranks, the leftmost first among equals.

Sections:
    merge_starts  u32 per id, and one more: where the merges begin that have it on the left
    merges        u64: right id << 40 | rank << 20 | merged id; by left id, then ascending
"""

from bisect import bisect_left
from itertools import pairwise

from embedder.core.fast_tokenizers.table_file import Memo, TableFile

#: Entries; about 4 MB when full.
_PAIRS = 1 << 15
#: Up to this many tokens, looking for the best merge each time is faster than keeping a heap.
_SHORT = 40
_NO_MERGE = 1 << 60
_MERGED = (1 << 20) - 1
_VALUE = (1 << 40) - 1


class Merges:
    """The merges of one byte pair encoding (Sennrich et al. 2016, https://arxiv.org/abs/1508.07909)."""

    def __init__(self, file: TableFile) -> None:
        self._starts = file.section("merge_starts").cast("I")
        self._entries = file.section("merges").cast("Q")
        self._pairs = Memo(self._find_merge, limit=_PAIRS)

    def merge(self, ids: list[int]) -> tuple[int, ...]:
        """Return what the ids of a word's characters or bytes become; changes the list."""
        if len(ids) > _SHORT:
            return _merge_many(ids, self._pairs)
        return _merge_few(ids, self._pairs)

    def _find_merge(self, pair: int) -> int:
        """Return rank << 20 | merged id of the pair left << 20 | right, or `_NO_MERGE`."""
        left, right = pair >> 20, pair & _MERGED
        start, stop = self._starts[left], self._starts[left + 1]
        if start == stop:
            return _NO_MERGE
        at = bisect_left(self._entries, right << 40, start, stop)
        if at == stop or self._entries[at] >> 40 != right:
            return _NO_MERGE
        return self._entries[at] & _VALUE


def _merge_few(ids: list[int], pairs: Memo[int, int]) -> tuple[int, ...]:
    """Merge a short list: find the best merge, carry it out, and again."""
    merges = [pairs[left << 20 | right] for left, right in pairwise(ids)]
    while merges:
        best = min(merges)
        if best == _NO_MERGE:
            break
        at = merges.index(best)
        merged = ids[at] = best & _MERGED
        del ids[at + 1], merges[at]
        if at:
            merges[at - 1] = pairs[ids[at - 1] << 20 | merged]
        if at < len(merges):
            merges[at] = pairs[merged << 20 | ids[at + 1]]
    return tuple(ids)


def _merge_many(ids: list[int], pairs: Memo[int, int]) -> tuple[int, ...]:
    """Merge a long list in n log n steps: a heap of merges, and links over merged tokens."""
    # Imported here: most texts have no such list, and no cold start should wait for it.
    from heapq import heapify, heappop, heappush  # noqa: PLC0415

    size = len(ids)
    after = list(range(1, size + 1))
    before = list(range(-1, size - 1))
    #: Where each merge may be carried out; the pair there shows whether it still can.
    positions: dict[int, list[int]] = {}
    for at, (left, right) in enumerate(pairwise(ids)):
        positions.setdefault(pairs[left << 20 | right], []).append(at)
    positions.pop(_NO_MERGE, None)
    heap = list(positions)
    heapify(heap)
    while heap:
        merge = heappop(heap)
        merged = merge & _MERGED
        waiting = sorted(positions.pop(merge))
        for done, at in enumerate(waiting, 1):
            right = after[at]
            if right == size or ids[at] < 0 or pairs[ids[at] << 20 | ids[right]] != merge:
                continue
            ids[at] = merged
            ids[right] = -1
            following = after[at] = after[right]
            previous = before[at]
            neighbors = []
            if following < size:
                before[following] = at
                neighbors.append((at, pairs[merged << 20 | ids[following]]))
            if previous >= 0:
                neighbors.append((previous, pairs[ids[previous] << 20 | merged]))
            for position, neighbor_merge in neighbors:
                if neighbor_merge in positions:
                    positions[neighbor_merge].append(position)
                elif neighbor_merge != _NO_MERGE:
                    positions[neighbor_merge] = [position]
                    heappush(heap, neighbor_merge)
            # A merge that goes first has become possible.
            if heap and heap[0] < merge:
                positions[merge] = waiting[done:]
                heappush(heap, merge)
                break
    return tuple(token_id for token_id in ids if token_id >= 0)
