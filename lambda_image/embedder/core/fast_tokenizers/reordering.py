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

from embedder.core.fast_tokenizers.characters import REORDERED
from embedder.core.fast_tokenizers.table_file import TableFile

__all__ = ["Reordering"]


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

    def normalize(self, text: str) -> str:
        """Do what `str.translate` with the characters would, but sort marks as Unicode says."""
        normalized: list[str] = []
        run: list[str] = []
        for source in text:
            normal = self._characters[ord(source)].removeprefix(REORDERED)
            for mark in normal or self._expansions.get(source, ""):
                if self._order.get(mark, 0):
                    run.append(mark)
                    continue
                normalized += self._sorted(run)
                run.clear()
                if mark not in self._stripped:
                    normalized.append(mark)
        return "".join(normalized + self._sorted(run))

    def _sorted(self, run: list[str]) -> list[str]:
        """Return the marks of a run that stay, in their order."""
        # Python's sort is stable, as the standard asks.
        return sorted(
            (mark for mark in run if mark not in self._stripped), key=self._order.__getitem__
        )
