"""Writes an artifact as one object for S3, which `embedder.core.artifact_download` reads.

`python -m model_compiler.artifact.packed FOLDER FILE` writes it.
"""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

from embedder.core.artifact import load_artifact

__all__ = ["main", "write_object"]


def write_object(folder: Path, to: Path) -> None:
    """Write the artifact's files one after the other, sorted by name, without the manifest.

    Raises:
        ArtifactError: The folder is not an artifact.
    """
    artifact = load_artifact(folder)
    with to.open("wb") as out:
        for name in sorted(artifact.manifest.files):
            with Path(artifact.folder, name).open("rb") as file:
                shutil.copyfileobj(file, out)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the object."""
    parser = argparse.ArgumentParser(prog="model_compiler.artifact.packed", description=__doc__)
    parser.add_argument("folder", type=Path, help="the artifact")
    parser.add_argument("file", type=Path, help="the object's file")
    asked = parser.parse_args(arguments)
    write_object(asked.folder, asked.file)


if __name__ == "__main__":
    main()
