"""Puts the image's recipe beside the constructs, so that an installed package can build it."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ImageRecipe(BuildHookInterface):  # type: ignore[type-arg]
    """Copies what Docker's context sends into the wheel; an editable install has the repository."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files; called by hatchling before it builds."""
        if version != "standard":
            return
        context = Path(self.root) / "lambda_image"
        ignored = (context / ".dockerignore").read_text(encoding="utf-8").splitlines()
        sent = [line.removeprefix("!") for line in ignored if line.startswith("!")]
        for name in (".dockerignore", "Dockerfile", *sent):
            build_data["force_include"][str(context / name)] = f"embedding_kit/lambda_image/{name}"
