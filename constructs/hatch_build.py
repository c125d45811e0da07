"""Puts the recipe of image and zip below the constructs, for an installed package to build."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: Files that a synth reads and what builds a zip, besides what Docker's context sends.
_BESIDES_CONTEXT = (".python-version", "build_zip.py", "contract.json", "zip_builder")


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
        for name in (".dockerignore", "Dockerfile", *_BESIDES_CONTEXT, *sent):
            included[str(context / name)] = f"embedding_kit/lambda_image/{name}"
