"""Memos compute each value once and respect their limits."""

from embedder.core.fast_tokenizers.memo import Memo, WordMemo


def test_a_value_is_computed_once():
    """The second look-up does not compute the value again."""
    asked: list[int] = []

    def double(key: int) -> int:
        asked.append(key)
        return key * 2

    memo = Memo(double, limit=10)
    assert [memo[3], memo[3], memo[4]] == [6, 6, 8]
    assert asked == [3, 4]


def test_a_memo_never_holds_more_than_its_limit():
    """After a thousand different keys the memo holds at most ten entries."""
    memo: Memo[int, int] = Memo(lambda key: key, limit=10)
    assert [memo[key] for key in range(1000)] == list(range(1000))
    assert len(memo) <= 10


def test_long_words_are_computed_and_not_kept():
    """The value of a long run of characters is computed but not stored."""
    memo = WordMemo(len, limit=10)
    assert memo["a" * 48] == 48
    assert memo["a" * 100_000] == 100_000
    assert list(memo) == ["a" * 48]
