"""All tokens of a Unigram by their characters: mapped tables, of which parts in use are kept.

Sections:
    scores       f64 by id, and one more: that of an unknown character
    trie_letters u32 per node: its code point; nodes are sorted by depth, then by their text
    trie_starts  u32 per node, and one more: where its children begin
    trie_tokens  u32 per node: the id + 1 of the token that ends here, or 0; plus 2^31 for a token
                 whose own text becomes that one token
"""

from bisect import bisect_left
from typing import TypeAlias

from embedder.core.fast_tokenizers.table_file import TableFile

__all__ = ["Children", "Node", "TokenTrie"]

#: Nodes, and letters that a node was found not to have: some 8 MB when full.
_LIMIT = 1 << 15
_WHOLE = 1 << 31


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

    def read(self, character: str, depth: int, first: int, last: int) -> Node | None:
        """Return the node with this letter among those from `first` to `last`."""
        self._size += 1
        if self._size > _LIMIT:
            self._size = 1
            self.root.clear()
        code = ord(character)
        at = bisect_left(self._letters, code, first, last)
        if at == last or self._letters[at] != code:
            return None
        first, last, token = self._starts[at], self._starts[at + 1], self._tokens[at]
        children = Children(self, depth + 1, first, last) if first < last else None
        if not token:
            return None, children, -1, depth, False
        token_id = (token & ~_WHOLE) - 1
        return self._scores[token_id], children, token_id, depth, token >= _WHOLE
