"""Unicode's canonical order of combining marks, where the order reaches the tokens.

Decomposition sorts the marks that follow a letter by their combining class. BERT then strips marks,
so that the order hardly ever shows; but some marks stay (spacing ones, and those younger than the
library's tables), and only around those does this module's slow way run.

Sections:
    marks      u32 triples: character, its place in the order (0: it is never moved), 1 if it stays.
               Marks that are neither here nor stay are gone before the sorting.
    compounds  UTF-8 triples: a character that is one or two other marks, the one, and the other or
               U+0000
"""

from collections.abc import Iterator
from typing import NamedTuple

from embedder.core.fast_tokenizers.characters import REORDERED, Aligned
from embedder.core.fast_tokenizers.table_file import TableFile

__all__ = ["Reordering"]


class _Mark(NamedTuple):
    """A mark of a run, before it is sorted."""

    text: str
    #: Where the character is that it comes from.
    place: int
    #: Whether it is the first that the character was decomposed to.
    first: bool


class Reordering:
    """Normalizes texts with marks that stay, in the right order."""

    def __init__(self, file: TableFile, characters: dict[int, str]) -> None:
        self._characters = characters
        numbers = file.section("marks").cast("I").tolist()
        marks = tuple(map(chr, numbers[::3]))
        self._order = dict(zip(marks, numbers[1::3], strict=True))
        self._stripped = {
            mark for mark, stays in zip(marks, numbers[2::3], strict=True) if not stays
        }
        self._expansions = {mark: mark for mark in self._stripped}
        compounds = file.text("compounds")
        for start in range(0, len(compounds), 3):
            self._expansions[compounds[start]] = compounds[start + 1 : start + 3].rstrip("\0")

    def align(self, text: str) -> Iterator[Aligned]:
        """Do what `str.translate` with the characters would, but sort marks as Unicode says."""
        run: list[_Mark] = []
        last = 0  # the place of the character before the run
        for place, source in enumerate(text):
            normal = self._characters[ord(source)].removeprefix(REORDERED)
            for at, mark in enumerate(normal or self._expansions.get(source, "")):
                if self._order.get(mark, 0):
                    run.append(_Mark(mark, place, first=at == 0))
                else:
                    yield from self._sorted(run, last)
                    run = []
                    last = place
                    if mark not in self._stripped:
                        yield mark, place
        yield from self._sorted(run, last)

    def _sorted(self, run: list[_Mark], last: int) -> Iterator[Aligned]:
        """Yield the marks of a run that stay, sorted, with the places that the library reports.

        It counts places after sorting: the first mark that begins a character gets the place of the
        first such mark before sorting, and a mark that begins none gets that of the mark before it.
        """
        places = iter([mark.place for mark in run if mark.first])
        # Python's sort is stable, as the standard asks.
        for mark in sorted(run, key=lambda mark: self._order[mark.text]):
            last = next(places) if mark.first else last
            if mark.text not in self._stripped:
                yield mark.text, last
