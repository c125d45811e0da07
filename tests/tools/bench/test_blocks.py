"""The blocks that a start reads."""

import mmap
from pathlib import Path

from tools.bench.blocks import blocks, pages

PAGES_OF_A_BLOCK = (512 << 10) // mmap.PAGESIZE


def test_files_follow_each_other_in_blocks():
    """A file may share a block with the one before it; a page that was not read costs nothing."""
    small, large, last = Path("small"), Path("large"), Path("last")
    read = {small: [True], large: [False] * (PAGES_OF_A_BLOCK - 2) + [True] * 2, last: [True]}
    assert blocks([small, large, last], read) == 2
    assert blocks([large, small, last], read) == 2
    assert blocks([small, last, large], read) == 2
    assert blocks([large], read) == 1
    assert blocks([last, small], read) == 1
    assert blocks([], read) == 0


def test_pages_of_a_file_that_was_written_are_in_the_cache(tmp_path):
    """The last page may be a part; an empty file has none."""
    path = tmp_path / "file"
    path.write_bytes(bytes(mmap.PAGESIZE + 1))
    assert pages(path) == [True, True]
    path.write_bytes(b"")
    assert pages(path) == []
