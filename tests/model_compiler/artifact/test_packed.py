"""An artifact as one object, and the checksums of its parts."""

import json
import zlib
from pathlib import Path

import pytest

from embedder.artifact import Artifact
from embedder.artifact_download.layout import read_layout
from embedder.errors import ArtifactError
from model_compiler.artifact.packed import PART_BYTES, write_object, write_parts


@pytest.mark.parametrize("part_bytes", [PART_BYTES, 1_000_003])
def test_the_parts_are_those_of_the_object(
    minilm_artifact: Artifact, tmp_path: Path, part_bytes: int
) -> None:
    """The embedder's layout gives each part's range and CRC-32, and each file's place."""
    folder = Path(minilm_artifact.folder)
    write_object(folder, tmp_path / "object")
    write_parts(folder, tmp_path / "parts.json", part_bytes=part_bytes)
    (tmp_path / "manifest.json").write_bytes((folder / "manifest.json").read_bytes())
    content = (tmp_path / "object").read_bytes()
    layout = read_layout(tmp_path)
    assert layout.size == len(content)
    for part in layout.parts:
        assert zlib.crc32(content[part.start : part.start + part.size]) == part.crc32
    assert sum(part.size for part in layout.parts) == len(content)
    for stored in layout.files:
        place = slice(stored.start, stored.start + stored.size)
        assert content[place] == (folder / stored.name).read_bytes()


def test_the_checksums_are_the_same_each_time(minilm_artifact: Artifact, tmp_path: Path) -> None:
    """They are a part of the package, whose bytes must not change without its content."""
    for name in ("a", "b"):
        write_parts(Path(minilm_artifact.folder), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert json.loads((tmp_path / "a").read_text())["part_bytes"] == 16 * 1024**2


def test_another_folder_is_refused(tmp_path: Path) -> None:
    """Only an artifact is packed."""
    with pytest.raises(ArtifactError, match="is not an artifact"):
        write_object(tmp_path, tmp_path / "object")
