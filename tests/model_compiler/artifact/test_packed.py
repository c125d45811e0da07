"""An artifact as one object for S3."""

from pathlib import Path

import pytest

from embedder.core.artifact import Artifact
from embedder.core.errors import ArtifactError
from model_compiler.artifact.packed import main, write_object


def test_the_object_has_the_files_by_name(minilm_artifact: Artifact, tmp_path: Path) -> None:
    """One after the other, without the manifest."""
    folder = Path(minilm_artifact.folder)
    main([str(folder), str(tmp_path / "object")])
    names = sorted(path.name for path in folder.iterdir() if path.name != "manifest.json")
    content = b"".join((folder / name).read_bytes() for name in names)
    assert (tmp_path / "object").read_bytes() == content


def test_another_folder_is_refused(tmp_path: Path) -> None:
    """Only an artifact is packed."""
    with pytest.raises(ArtifactError, match="is not an artifact"):
        write_object(tmp_path, tmp_path / "object")
