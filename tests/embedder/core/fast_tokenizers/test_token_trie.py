"""The trie of tokens finds each token, and keeps a bounded part in memory."""

import pytest

from embedder.core.fast_tokenizers import token_trie
from embedder.core.fast_tokenizers.table_file import TableFile
from embedder.core.fast_tokenizers.token_trie import Children, TokenTrie

from .conftest import ALL_CHARACTERS, Both


@pytest.fixture
def trie(unigram: Both) -> TokenTrie:
    """Return a trie of which no part was read."""
    return TokenTrie(TableFile(str(unigram.path)))


def size(children: Children) -> int:
    """Return the number of entries in memory."""
    return len(children) + sum(size(node[1]) for node in children.values() if node and node[1])


def test_each_token_is_found(trie: TokenTrie, unigram: Both) -> None:
    """A token's node has its id and its length; a text that begins none has no node."""
    vocabulary = unigram.library.get_vocab()
    found = {text: trie.find(text) for text in vocabulary}
    assert {text: node and (node[2], node[3]) for text, node in found.items()} == {
        text: (token_id, len(text)) for text, token_id in vocabulary.items()
    }
    assert trie.find("") is None
    assert trie.find("<s>!") is None
    assert trie.find("\U0010ffff") is None


def test_the_part_in_memory_is_bounded(trie: TokenTrie, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit the trie is emptied, and later look-ups give the same results."""
    before = trie.find("▁the")
    monkeypatch.setattr(token_trie, "_LIMIT", 100)
    sizes = []
    for character in ALL_CHARACTERS[:5000]:
        trie.find(character)
        sizes.append(size(trie.root))
    assert max(sizes) <= 100
    after = trie.find("▁the")
    assert before is not None
    assert after is not None
    assert (before[0], before[2:]) == (after[0], after[2:])
