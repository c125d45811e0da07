"""Names the artifacts that a function serves, in the folder that the builds give it.

Each is in the folder of its task. The file that names them has the checksums of their manifests, so
that no other artifact takes the place of one.
"""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from embedder.core.artifact import MANIFEST_FILE, SET_FILE, load_artifact
from embedder.core.errors import ArtifactError
from model_compiler.artifact.writer import new_folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file into the folder; return 2 after an error, which is printed."""
    (folder,) = map(Path, sys.argv[1:] if arguments is None else arguments)
    try:
        name_artifacts(folder)
    except ArtifactError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def put_together(artifacts: Mapping[str, Path], output: Path) -> None:
    """Write a folder of links to one artifact, or of several by their tasks, and name these."""
    marker = SET_FILE if len(artifacts) > 1 else MANIFEST_FILE
    with new_folder(output, marker=marker) as partial:
        for task, folder in artifacts.items():
            artifact = partial / task if len(artifacts) > 1 else partial
            shutil.copytree(folder, artifact, copy_function=_link, dirs_exist_ok=True)
        if len(artifacts) > 1:
            name_artifacts(partial)


def _link(source: str, place: str) -> None:
    try:
        os.link(source, place)
    except OSError:  # The output is on another disk.
        shutil.copy(source, place)


def name_artifacts(folder: Path) -> None:
    """Write `artifacts.json` for the artifacts in a folder; raises an ArtifactError."""
    checksums = {}
    for artifact in sorted(path for path in folder.iterdir() if path.is_dir()):
        manifest = load_artifact(artifact).manifest
        if manifest.task != artifact.name:
            descriptions = {
                "embed": "an embedding model, [model]",
                "rerank": "a reranker, [reranker]",
                "sparse": "a sparse encoder, [sparse]",
            }
            raise ArtifactError(
                f"{manifest.model.name} must be {descriptions[artifact.name]}; found "
                f"{manifest.kind}.{' It is served alone.' * (manifest.task == 'classify')}"
            )
        checksums[artifact.name] = manifest.checksum
    (folder / SET_FILE).write_text(json.dumps({"artifacts": checksums}, indent=1), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
