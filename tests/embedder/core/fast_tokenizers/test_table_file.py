"""The file format of a fast tokenizer: sections, versions, and files that are not table files."""

import struct
from pathlib import Path

import pytest

from embedder.core.errors import ArtifactError
from embedder.core.fast_tokenizers.bpe import BytePairEncoding
from embedder.core.fast_tokenizers.table_file import TableFile
from model_compiler.tokenizer.table_file import table_file

from .conftest import Both


def written(folder: Path, data: bytes) -> str:
    """Write a file of tables."""
    path = folder / "tokenizer.bin"
    path.write_bytes(data)
    return str(path)


def test_sections_come_back_as_they_were_written(tmp_path: Path) -> None:
    """Bytes and numbers of any length, including none, are read as written."""
    content = {"empty": b"", "bytes": b"abc", "numbers": struct.pack("<3I", 1, 2, 1 << 31)}
    content["long"] = bytes(range(256)) * 128 + b"end"
    file = TableFile(written(tmp_path, table_file(content)))
    assert {name: file.section(name).tobytes() for name in content} == content
    assert file.section("numbers").cast("I").tolist() == [1, 2, 1 << 31]


def test_the_same_sections_give_the_same_bytes() -> None:
    """The file depends only on its sections, not on the machine or the time."""
    assert table_file({"a": b"1", "b": b"2"}) == table_file({"a": b"1", "b": b"2"})


@pytest.mark.parametrize("kept", [0, 7, 23, 100, 4000, -1])
def test_a_file_that_was_cut_short_is_refused(gemma: Both, tmp_path: Path, kept: int) -> None:
    """A truncated file of any length is refused when it is loaded."""
    data = gemma.path.read_bytes()[:kept]
    with pytest.raises(ArtifactError, match=r"incomplete|magic is missing|cannot be read"):
        BytePairEncoding(written(tmp_path, data))


def test_a_file_of_another_version_is_refused(gemma: Both, tmp_path: Path) -> None:
    """The message has the version found and the version supported."""
    data = bytearray(gemma.path.read_bytes())
    data[8] = 9
    with pytest.raises(ArtifactError, match="has version 9; this embedder reads 2"):
        BytePairEncoding(written(tmp_path, bytes(data)))


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    """A `tokenizer.json` with the name of a table file is rejected."""
    with pytest.raises(ArtifactError, match="magic is missing"):
        TableFile(written(tmp_path, b'{"version": "1.0", "truncation": null}'))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(ArtifactError, match=r"tokenizer\.bin cannot be read"):
        TableFile(str(tmp_path / "tokenizer.bin"))


def test_tables_of_the_other_kind_are_refused(minilm: Both) -> None:
    """WordPiece's tables lack the sections that BPE needs."""
    with pytest.raises(ArtifactError, match="has no section"):
        BytePairEncoding(str(minilm.path))


def test_a_section_of_another_name_is_refused(tmp_path: Path) -> None:
    """The message names the missing section."""
    with pytest.raises(ArtifactError, match="has no section 'merges'"):
        TableFile(written(tmp_path, table_file({"a": b""}))).section("merges")
