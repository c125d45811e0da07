"""Puts the recipe of image and zip beside the constructs, for an installed package to build."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: What builds a zip, beside what Docker's context sends.
_OF_ZIP = ("build_zip.py", "zip_builder")
#: Puts the folder on Python's path, so that `python -P -m model_compiler` works.
_PATH = "embedding_kit_programs.pth"


class ImageRecipe(BuildHookInterface):  # type: ignore[type-arg]
    """Copies the recipe into the wheel; an editable install has the repository."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files; called by hatchling before it builds."""
        if version != "standard":
            return
        context = Path(self.root) / "lambda_image"
        ignored = (context / ".dockerignore").read_text(encoding="utf-8").splitlines()
        sent = [line.removeprefix("!") for line in ignored if line.startswith("!")]
        included = build_data["force_include"]
        for name in (".dockerignore", "Dockerfile", *_OF_ZIP, *sent):
            included[str(context / name)] = f"embedding_kit/lambda_image/{name}"
        # Python finds the programs there, last on its path, so that no file is installed twice.
        included[str(Path(self.root) / "constructs" / _PATH)] = _PATH
