"""The file of a fast tokenizer: tables that are mapped into memory and read on demand.

A JSON reader takes most of a second and hundreds of megabytes for a vocabulary of 262,144 tokens
with half a million merges. Here an initialization reads only the header; the operating system loads
a page when a text first needs it.

The contents are not checked: the compiler wrote the file, the manifest has its size, and the image
is immutable. `embedding-kit model_compiler verify` compares the file's SHA-256.

Layout, little-endian like every machine that Lambda has:

    offset  bytes  content
    0       8      magic, `EKTOKENS`
    8       4      u32 version of this layout, 2
    12      4      u32 number of sections, n
    16      8      u64 size of the whole file
    24      32 n   per section: name (16 bytes, ASCII, padded with zeros), u64 offset, u64 bytes

Sections begin at multiples of 64. Every fast tokenizer has these:

    parameters    u32: how many special tokens come before a text, how many after it, their ids,
                  and one past the largest id
    token_offsets u32: where each id's text begins in `token_text`, and one more
    token_text    UTF-8; an id with an empty text does not exist

and, under another name, a look-up of ids by text:
    …             u32, a power of two: open addressing by the low bits of the CRC-32 of the text's
                  UTF-8; 0 is free, else the CRC's upper 12 bits << 20 | the id + 1

Some have the normalization and splitting of each character, as in BERT before words are looked up.
The compiler runs `tokenizers` on every code point and stores the results, so that they do not
depend on the version of Unicode in Python or in that library:
    char_pages    u16 per 256 code points: the number of their page
    char_codes    u32, 256 to a page: 0 stays as it is; 1 vanishes; 2 becomes a space; 3 is a word
                  by itself (gets spaces around it); 4 + (offset << 8 | bytes): becomes that piece
                  of `char_text`
    char_text     UTF-8
"""

import mmap
import struct
from collections.abc import Callable
from typing import TypeVar

from embedder.core.errors import ArtifactError

MAGIC = b"EKTOKENS"
VERSION = 2
HEADER = struct.Struct("<8sIIQ")
SECTION = struct.Struct("<16sQQ")
_ID = (1 << 20) - 1
#: Precedes, in a character's text, marks in an order that the text around them decides. No valid
#: text has a lone surrogate.
REORDERED = "\ud800"
#: Entries of a table of characters in memory: those of any few scripts, under 10 MB if all were
#: used.
CHARACTERS = 1 << 16
#: Characters. A German compound fits; a base64 line does not.
_LONGEST_WORD = 48

Key = TypeVar("Key")
Value = TypeVar("Value")


class Memo(dict[Key, Value]):
    """Remembers the values of `compute`; starts over when `limit` entries are in it.

    A hit costs as much as a dictionary's. Starting over is cheaper than any order of eviction, and
    words come back at once in the order of their frequency.
    """

    __slots__ = ("_compute", "_limit")

    def __init__(self, compute: Callable[[Key], Value], *, limit: int) -> None:
        super().__init__()
        self._compute = compute
        self._limit = limit

    def __missing__(self, key: Key) -> Value:
        if len(self) >= self._limit:
            self.clear()
        value = self[key] = self._compute(key)
        return value


class WordMemo(Memo[str, Value]):
    """Remembers short strings only: a long one hardly comes back, and would take much room."""

    __slots__ = ()

    def __missing__(self, key: str) -> Value:
        value = self._compute(key)
        if len(key) <= _LONGEST_WORD:
            if len(self) >= self._limit:
                self.clear()
            self[key] = value
        return value


class TableFile:
    """The sections of one file, by name."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            with open(path, "rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise ArtifactError(f"{path} cannot be read: {error}.") from error
        self._entries = self._read_header()

    def section(self, name: str) -> memoryview:
        """Return the bytes of a section."""
        entry = self._entries.get(name)
        if entry is None:
            raise ArtifactError(f"{self._path} has no section {name!r}. Compile the model again.")
        offset, size = entry
        return memoryview(self._bytes)[offset : offset + size]

    def text(self, name: str) -> str:
        """Return a section as text."""
        return self.section(name).tobytes().decode()

    def _read_header(self) -> dict[str, tuple[int, int]]:
        data, path = self._bytes, self._path
        if len(data) < HEADER.size or data[:8] != MAGIC:
            raise ArtifactError(f"{path} is not a tokenizer's table file: the magic is missing.")
        _, version, count, size = HEADER.unpack_from(data)
        if version != VERSION:
            raise ArtifactError(
                f"{path} has version {version}; this embedder reads {VERSION}. "
                "Compile the model again with the compiler of this version."
            )
        if size != len(data):
            raise ArtifactError(
                f"{path} has {len(data)} bytes and its header says {size}. The file is incomplete."
            )
        entries = {}
        for index in range(count):
            name, offset, length = SECTION.unpack_from(data, HEADER.size + index * SECTION.size)
            entries[name.rstrip(b"\0").decode("ascii")] = (offset, length)
        return entries


class TokenTexts:
    """The text of each token, by id."""

    __slots__ = ("_offsets", "_text", "count")

    def __init__(self, file: TableFile) -> None:
        self._offsets = file.section("token_offsets").cast("I")
        self._text = file.section("token_text")
        self.count = len(self._offsets) - 1

    def utf8(self, token_id: int) -> bytes:
        """Return the token's text as UTF-8; empty where no token has this id."""
        if not 0 <= token_id < self.count:
            return b""
        return self._text[self._offsets[token_id] : self._offsets[token_id + 1]].tobytes()

    def __getitem__(self, token_id: int) -> str:
        text = self.utf8(token_id)
        if not text:
            raise ValueError(f"No token has the id {token_id}.")
        return text.decode()


class TokenIds:
    """The id of each token in one look-up section, by text."""

    __slots__ = ("_mask", "_slots", "_texts")

    def __init__(self, file: TableFile, name: str, texts: TokenTexts) -> None:
        self._slots = file.section(name).cast("I")
        self._mask = len(self._slots) - 1
        self._texts = texts

    def find(self, utf8: bytes, crc: int) -> int:
        """Return the id of the token with this text and its CRC-32 `crc`, or -1."""
        slots, mask = self._slots, self._mask
        slot = crc & mask
        while True:
            entry = slots[slot]
            if not entry:
                return -1
            if entry >> 20 == crc >> 20:
                token_id = (entry & _ID) - 1
                if self._texts.utf8(token_id) == utf8:
                    return token_id
            slot = slot + 1 & mask


def character_table(file: TableFile) -> dict[int, str]:
    """Return the table for `str.translate`, filled as characters occur."""
    pages = file.section("char_pages").cast("H")
    codes = file.section("char_codes").cast("I")
    text = file.section("char_text")

    def read(character: int) -> str:
        code = codes[pages[character >> 8] << 8 | character & 0xFF]
        if code == 0:
            return chr(character)
        if code < 4:
            return ("", " ", f" {chr(character)} ")[code - 1]
        start, size = (code - 4) >> 8, (code - 4) & 0xFF
        return text[start : start + size].tobytes().decode("utf-8", "surrogatepass")

    return Memo(read, limit=CHARACTERS)


class TableTokenizer:
    """The part that is the same for every fast tokenizer."""

    unknown: int | None = None

    def __init__(self, file: TableFile) -> None:
        numbers = file.section("parameters").cast("I").tolist()
        middle = 2 + numbers[0]
        self.prefix = tuple(numbers[2:middle])
        self.suffix = tuple(numbers[middle:-1])
        self.vocabulary_size = numbers[-1]
        self._texts = TokenTexts(file)

    def token(self, token_id: int) -> str:
        """See `Tokenizer`."""
        return self._texts[token_id]
