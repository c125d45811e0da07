"""The normalization and splitting of each character, as in BERT, before words are looked up.

The compiler runs `tokenizers` on every code point and stores the results, so that they do not
depend on the version of Unicode in Python or in that library.

Sections:
    char_pages  u16 per 256 code points: the number of their page
    char_codes  u32, 256 to a page: 0 stays as it is; 1 vanishes; 2 becomes a space; 3 is a word
                by itself (gets spaces around it); 4 + (offset << 8 | bytes): becomes that piece
                of `char_text`
    char_text   UTF-8
"""

from embedder.core.fast_tokenizers.memo import Memo
from embedder.core.fast_tokenizers.table_file import TableFile

__all__ = ["REORDERED", "character_table"]

#: Precedes, in a character's text, marks whose order the text around them decides. No valid
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
