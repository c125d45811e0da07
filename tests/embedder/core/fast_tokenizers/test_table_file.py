"""The file format of a fast tokenizer: sections, versions, and files that are not table files."""

import struct
from pathlib import Path

import pytest

from embedder.core.errors import ArtifactError
from embedder.core.fast_tokenizers.bpe import BytePairEncoding
from embedder.core.fast_tokenizers.table_file import Memo, TableFile, WordMemo
from model_compiler.tokenizer.table_file import table_file


def written(folder: Path, data: bytes) -> str:
    path = folder / "tokenizer.bin"
    path.write_bytes(data)
    return str(path)


def test_sections_come_back_as_they_were_written(tmp_path):
    """Bytes and numbers of any length, including none, are read as written."""
    content = {"empty": b"", "bytes": b"abc", "numbers": struct.pack("<3I", 1, 2, 1 << 31)}
    content["long"] = bytes(range(256)) * 128 + b"end"
    file = TableFile(written(tmp_path, table_file(content)))
    assert {name: file.section(name).tobytes() for name in content} == content
    assert file.section("numbers").cast("I").tolist() == [1, 2, 1 << 31]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        *((lambda data, kept=kept: data[:kept], "incomplete|magic") for kept in (7, 23, 100, -1)),
        (lambda _: b"", "cannot be read"),
        (lambda data: data[:8] + b"\t" + data[9:], "has version 9; this embedder reads 2"),
        (lambda _: b'{"version": "1.0", "truncation": null}', "magic is missing"),
        (lambda _: table_file({"a": b""}), "has no section"),
    ],
)
def test_another_file_is_refused(gemma, tmp_path, change, message):
    """A truncated one, one of another version, something else, and tables of another kind."""
    with pytest.raises(ArtifactError, match=message):
        BytePairEncoding(written(tmp_path, change(gemma.path.read_bytes())))


def test_a_missing_file_is_refused(tmp_path):
    """The message names the file."""
    with pytest.raises(ArtifactError, match=r"tokenizer\.bin cannot be read"):
        TableFile(str(tmp_path / "tokenizer.bin"))


def test_a_value_is_computed_once():
    """The second look-up does not compute the value again."""
    computed: list[int] = []

    def double(key: int) -> int:
        computed.append(key)
        return key * 2

    memo = Memo(double, limit=10)
    assert [memo[3], memo[3], memo[4]] == [6, 6, 8]
    assert computed == [3, 4]


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
