"""Unicode's canonical order of combining marks, where the order reaches the tokens.

Decomposition sorts the marks that follow a letter by their combining class. BERT then strips marks,
so that the order hardly ever shows; but some marks stay (spacing ones, and those younger than the
library's tables), and only around those does this module's slow way run.

Sections:
    marks  u32 triples: character, its place in the order (0: it is never moved), 1 if it stays.
           Marks that are neither here nor stay are gone before the sorting.
"""

from collections.abc import Iterator

from embedder.tokenizers.characters import REORDERED, Aligned
from embedder.tokenizers.table_file import TableFile

__all__ = ["Reordering"]


class Reordering:
    """Normalises texts with marks that stay, in the right order."""

    def __init__(self, file: TableFile, characters: dict[int, str]) -> None:
        self._characters = characters
        numbers = file.section("marks").numbers("I").tolist()
        marks = tuple(map(chr, numbers[::3]))
        self._order = dict(zip(marks, numbers[1::3], strict=True))
        self._stripped = {
            mark for mark, stays in zip(marks, numbers[2::3], strict=True) if not stays
        }

    def align(self, text: str) -> Iterator[Aligned]:
        """Do what `str.translate` with the characters would, but sort marks as Unicode says.

        The library counts places before it sorts: the first mark of a run is told to come from
        where the first one stood.
        """
        order = self._order
        run: list[Aligned] = []
        for place, source in enumerate(text):
            normal = self._characters[ord(source)].removeprefix(REORDERED)
            if not normal and source in order:
                normal = source
            for mark in normal:
                if order.get(mark, 0):
                    run.append((mark, place))
                else:
                    yield from self._sorted(run)
                    run = []
                    if mark not in self._stripped:
                        yield mark, place
        yield from self._sorted(run)

    def _sorted(self, run: list[Aligned]) -> Iterator[Aligned]:
        # Python's sort is stable, as the standard asks.
        marks = sorted((mark for mark, _ in run), key=self._order.__getitem__)
        for mark, (_, place) in zip(marks, run, strict=True):
            if mark not in self._stripped:
                yield mark, place
