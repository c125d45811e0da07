"""SentencePiece's Unigram, over mapped tables: the same ids as `tokenizers`.

A text is normalized by a character map, split at spaces, and each piece is taken apart into the
tokens with the largest sum of scores (Kudo 2018, https://arxiv.org/abs/1804.10959). The search is
Viterbi's from left to right; of two equal sums the first that is found stays. A chunk
between white space is encoded by itself and remembered, so that a common word costs one look-up.

Sections besides those of `table_file`, `added_tokens` (`added` are matched in the text as it is,
`normal` after normalization) and `character_map`, if the tokenizer has one:
    options      u32, in the order of `UnigramOptions`
    byte_ids     u32[256], if unknown text becomes its bytes
    odd_spaces   UTF-8: characters that Python splits at and this tokenizer does not
    scores       f64 by id, and one more: that of an unknown character
    trie_letters u32 per node: its code point; nodes are sorted by depth, then by their text
    trie_starts  u32 per node, and one more: where its children begin
    trie_tokens  u32 per node: the id + 1 of the token that ends here, or 0; plus 2^31 for a token
                 that their text alone becomes
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from embedder.core.fast_tokenizers.added_tokens import WHITE_SPACE, AddedTokens
from embedder.core.fast_tokenizers.character_map import CharacterMap
from embedder.core.fast_tokenizers.table_file import Memo, TableFile, TableTokenizer, WordMemo

#: Entries; 3 to 4 MB when full.
_REMEMBERED = 1 << 14
_WORST = float("-inf")
#: Nodes, and letters that a node was found not to have: some 8 MB when full.
_NODES = 1 << 15
_ALONE = 1 << 31

#: Written for a space.
SPACE = "▁"
#: Which pieces get a `▁` in front: none, the one at the start of the text, each.
NEVER, FIRST, ALWAYS = range(3)
#: What becomes of two spaces or more, by `UnigramOptions.collapse`; 0 leaves them alone.
_COLLAPSED = ("", " ", SPACE)
#: All characters of white space.
_BLANK = "".join(sorted(WHITE_SPACE))

# Compiled when a text first needs them: most words are a piece each.
_SPACES = " {2,}"
_WORDS = f"[^{_BLANK}]+"
_PIECES = f"{SPACE}[^{SPACE}]*|[^{SPACE}]+"
_SPLITS = WHITE_SPACE | {SPACE}


class UnigramOptions(NamedTuple):
    """The steps, and the numbers of the model; flags are 0 or 1."""

    #: The id of the unknown token.
    unknown: int
    #: The longest token, in characters.
    longest: int
    #: Unknown text becomes the tokens of its bytes.
    bytes: int
    #: There is a character map, which is the first step.
    map: int
    #: White space is removed at the start, at the end.
    strip_left: int
    strip_right: int
    #: An index into `_COLLAPSED`.
    collapse: int
    #: The normalizer writes spaces as `▁`.
    replace: int
    #: The text is split at white space.
    words: int
    #: After that, spaces are written as `▁`, and the text is split before each.
    metaspace: int
    split: int
    #: `NEVER`, `FIRST` or `ALWAYS`, for `metaspace`.
    prefix: int


class Children(dict[str, "Node | None"]):
    """The children of a node by their letter, read when a text first needs them."""

    __slots__ = ("_depth", "_first", "_last", "_trie")

    def __init__(self, trie: "TokenTrie", depth: int, first: int, last: int) -> None:
        super().__init__()
        self._trie, self._depth, self._first, self._last = trie, depth, first, last

    def __missing__(self, character: str) -> "Node | None":
        node = self._trie.read(character, self._depth, self._first, self._last)
        self[character] = node
        return node


#: The score of the token that ends here, or None; the children, or None; the id of the token; its
#: length; whether its own text becomes that one token.
Node: TypeAlias = tuple[float | None, Children | None, int, int, bool]


class TokenTrie:
    """The trie in a tokenizer's file."""

    def __init__(self, file: TableFile) -> None:
        self._letters = file.section("trie_letters").cast("I")
        self._starts = file.section("trie_starts").cast("I")
        self._tokens = file.section("trie_tokens").cast("I")
        self._scores = file.section("scores").cast("d")
        self.unknown_score: float = self._scores[-1]
        self._size = 0
        self.root = Children(self, 1, self._starts[0], self._starts[1])

    def find(self, text: str) -> Node | None:
        """Return the node of this text, if any token begins with it."""
        node: Node | None = None
        children: Children | None = self.root
        for character in text:
            if children is None:
                return None
            node = children[character]
            if node is None:
                return None
            children = node[1]
        return node

    def read(self, character: str, depth: int, start: int, stop: int) -> Node | None:
        """Return the node with this letter among those from `start` to `stop`."""
        self._size += 1
        if self._size > _NODES:
            self._size = 1
            self.root.clear()
        code = ord(character)
        at = bisect_left(self._letters, code, start, stop)
        if at == stop or self._letters[at] != code:
            return None
        start, stop, token = self._starts[at], self._starts[at + 1], self._tokens[at]
        children = Children(self, depth + 1, start, stop) if start < stop else None
        if not token:
            return None, children, -1, depth, False
        token_id = (token & ~_ALONE) - 1
        return self._scores[token_id], children, token_id, depth, token >= _ALONE


class _CrossingError(Exception):
    """A word between white space cannot be encoded without its neighbors."""


class Unigram(TableTokenizer):
    """A Unigram tokenizer that the compiler wrote into one file.

    There are three paths from a text to the pieces that `_encode_piece` takes apart:

        encode ─► _encode_part ─► _normalize ─► _split ─► _pieces[piece]       any text
                       │
                       └────────► _encode_chunks ─► _chunks[chunk]             by white space
                                                         └─► _pieces[piece]    a chunk of several

    The second one is taken where white space ends pieces in any case, and each chunk is remembered
    as it is written. If a chunk cannot be encoded without its neighbors, it raises a
    `_CrossingError`, and the first path encodes the whole part.
    """

    def __init__(self, path: str) -> None:
        file = TableFile(path)
        super().__init__(file)
        self._options = options = UnigramOptions(*file.section("options").cast("I").tolist())
        self._map = CharacterMap(file) if options.map else None
        self._trie = TokenTrie(file)
        self.unknown = options.unknown
        self._unknown: Node = (self._trie.unknown_score, None, options.unknown, 1, False)
        self._byte_ids = file.section("byte_ids").cast("I") if options.bytes else None
        self._added = AddedTokens(file, "added")
        self._normal = AddedTokens(file, "normal")
        # Whether white space ends a piece and leaves nothing, except perhaps at the text's end.
        self._by_chunks = bool(options.split) and (
            options.prefix != FIRST
            if options.words
            else bool(options.collapse) and options.prefix != NEVER and not options.strip_left
        )
        #: Characters of texts in which that is not so.
        self._odd = (*self._normal.first_characters, *file.text("odd_spaces"))
        #: Text in front of each chunk.
        self._prefix = "" if options.prefix == NEVER else SPACE
        self._chunks = WordMemo(self._encode_chunk, limit=_REMEMBERED)
        self._pieces = WordMemo(self._encode_piece, limit=_REMEMBERED)
        self._endings = Memo(self._ends_in_space, limit=_REMEMBERED)

    def encode(self, text: str) -> list[int]:
        """Return the text's own ids: no special tokens around them, no truncation."""
        for character in self._added.first_characters:
            if character in text:
                break
        else:
            return self._encode_part(text, first=True)
        ids: list[int] = []
        for number, piece in enumerate(self._added.pieces(text)):
            if isinstance(piece, int):
                ids.append(piece)
            else:
                ids += self._encode_part(piece, first=not number)
        return ids

    def _encode_part(self, part: str, *, first: bool) -> list[int]:
        """Encode a text without the added tokens that are matched before normalization."""
        if self._by_chunks and (first or self._options.prefix != FIRST):
            for character in self._odd:
                if character in part:
                    break
            else:
                try:
                    return self._encode_chunks(part)
                except _CrossingError:
                    pass
        ids: list[int] = []
        for number, text in enumerate(self._normal.pieces(self._normalize(part))):
            if isinstance(text, int):
                ids.append(text)
                continue
            for piece in self._split(text, first=first and not number):
                ids += self._pieces[piece]
        return ids

    def _normalize(self, text: str) -> str:
        """Return the text after the normalizer, which sees nothing but this part of a text."""
        options = self._options
        if self._map:
            text = self._map.normalize(text)
        if options.strip_left:
            text = text.lstrip(_BLANK)
        if options.strip_right:
            text = text.rstrip(_BLANK)
        if options.collapse:
            text = re.sub(_SPACES, _COLLAPSED[options.collapse], text)
        if options.replace:
            text = text.replace(" ", SPACE)
        return text

    def _split(self, normal: str, *, first: bool) -> Iterator[str]:
        """Split a normalized text without added tokens, perhaps the first of the whole text."""
        options = self._options
        prefixed = options.prefix == ALWAYS or (options.prefix == FIRST and first)
        for word in re.findall(_WORDS, normal) if options.words else [normal]:
            if not options.metaspace:
                yield word
                continue
            spaced = word.replace(" ", SPACE)
            if prefixed and spaced[0] != SPACE:
                spaced = SPACE + spaced
            yield from re.findall(_PIECES, spaced) if options.split else [spaced]

    def _encode_chunks(self, part: str) -> list[int]:
        """Encode the chunks between white space one by one."""
        ids: list[int] = []
        chunks = self._chunks
        for chunk in part.split():
            ids += chunks[chunk]
        if not self._options.words and self._endings[part[-1:]]:
            ids += self._pieces[SPACE]
        return ids

    def _encode_chunk(self, chunk: str) -> tuple[int, ...]:
        if self._map:
            if self._map.joins(chunk):
                raise _CrossingError
            chunk = self._map.normalize(chunk)
        for character in self._normal.first_characters:
            if character in chunk:
                raise _CrossingError
        if _SPLITS.isdisjoint(chunk):
            return self._encode_piece(self._prefix + chunk) if chunk else ()
        ids: list[int] = []
        if self._options.words:
            for piece in self._split(chunk, first=False):
                ids += self._pieces[piece]
            return tuple(ids)
        if SPACE in chunk:
            raise _CrossingError  # It is joined to a space before it.
        for word in chunk.split(" "):
            if word:
                ids += self._pieces[self._prefix + word]
        return tuple(ids)

    def _ends_in_space(self, character: str) -> bool:
        """Say whether a text with this last character ends in a space, which is then a piece."""
        if self._options.strip_right or not character:
            return False
        if not self._map:
            return character == " "
        normal = self._map.normalize(character)
        if not normal or character == "\n" or self._map.joins(character):
            raise _CrossingError
        return normal[-1] == " "

    def _encode_piece(self, piece: str) -> tuple[int, ...]:
        node = self._trie.find(piece)
        if node is not None and node[4]:
            return (node[2],)
        path = self._path(piece)
        unknown = self._options.unknown
        ids = [node[2] for node in path]
        if unknown not in ids:
            return tuple(ids)
        # Unknown characters next to each other are together: one token, or the bytes of all.
        ids.clear()
        start = at = 0
        for _, _, token_id, length, _ in path:
            if token_id != unknown:
                if start < at:
                    ids += self._unknown_ids(piece[start:at])
                ids.append(token_id)
                start = at + length
            at += length
        if start < at:
            ids += self._unknown_ids(piece[start:at])
        return tuple(ids)

    def _unknown_ids(self, text: str) -> tuple[int, ...]:
        node = self._trie.find(text)
        if node is not None and node[0] is not None:
            return (node[2],)  # As in the library, which looks for the text of all.
        if self._byte_ids:
            return tuple([self._byte_ids[byte] for byte in text.encode("utf-8", "replace")])
        return (self._options.unknown,)

    def _path(self, piece: str) -> list[Node]:
        """Return the tokens of a piece with the largest sum of scores."""
        size, longest = len(piece), self._options.longest
        root, unknown, unknown_score = self._trie.root, self._unknown, self._trie.unknown_score
        # The largest sum up to each place, and the token that ends there.
        best = [_WORST] * (size + 1)
        best[0] = 0.0
        taken = [unknown] * (size + 1)
        for start in range(size):
            before = best[start]
            node = root[piece[start]]
            at = start + 1
            # A character without a token is unknown, even if longer tokens begin so.
            if node is None or node[0] is None:
                score, token = unknown_score + before, unknown
            else:
                score, token = node[0] + before, node
            if score > best[at]:
                best[at] = score
                taken[at] = token
            if node is None:
                continue
            children: Children | None = node[1]
            for character in piece[at : start + longest]:
                if children is None:
                    break
                node = children[character]
                if node is None:
                    break
                at += 1
                own = node[0]
                if own is not None:
                    score = own + before
                    if score > best[at]:
                        best[at] = score
                        taken[at] = node
                children = node[1]
        path = []
        while size:
            node = taken[size]
            path.append(node)
            size -= node[3]
        path.reverse()
        return path
