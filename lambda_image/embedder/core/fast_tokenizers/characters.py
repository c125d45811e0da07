"""The normalization and splitting of each character, as in BERT, before words are looked up.

The compiler runs `tokenizers` on every code point and stores the results, so that they do not
depend on the version of Unicode in Python or in that library.

Sections:
    char_pages  u16 per 256 code points: the number of their page
    char_codes  u32, 256 to a page: 0 stays as it is; 1 vanishes; 2 becomes a space; 3 is a word
                by itself (gets spaces around it); 4 + (offset << 8 | bytes): becomes that piece
                of `char_text`
    char_text   UTF-8

Decomposition sorts the marks that follow a letter by their combining class. BERT then strips marks,
so that the order hardly ever shows; but some marks stay (spacing ones, and those younger than the
library's tables), and only around those does `Reordering` run, with these sections:
    marks      u32 triples: character, its place in the order (0: it is never moved), 1 if it stays.
               Marks that are neither here nor stay are gone before the sorting.
    compounds  UTF-8 triples: a character that is one or two other marks, the one, and the other or
               U+0000
"""

from embedder.core.fast_tokenizers.memo import Memo
from embedder.core.fast_tokenizers.table_file import TableFile

#: Precedes, in a character's text, marks in an order that the text around them decides. No valid
#: text has a lone surrogate.
REORDERED = "\ud800"

#: Entries of the table in memory: the characters of any few scripts, under 10 MB if all were used.
_LIMIT = 1 << 16


def character_table(file: TableFile) -> dict[int, str]:
    """Return the table for `str.translate`, filled as characters occur."""
    pages = file.section("char_pages").cast("H")
    codes = file.section("char_codes").cast("I")
    text = file.section("char_text")

    def read(character: int) -> str:
        index = pages[character >> 8] << 8 | character & 0xFF
        code = codes[index]
        if code == 0:
            return chr(character)
        if code < 4:
            return ("", " ", f" {chr(character)} ")[code - 1]
        start, size = (code - 4) >> 8, (code - 4) & 0xFF
        return text[start : start + size].tobytes().decode("utf-8", "surrogatepass")

    return Memo(read, limit=_LIMIT)


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
