"""The setting for the images when the stack is removed."""

from typing import Literal

from pydantic import Field

from embedding_kit.settings.base import Settings

__all__ = ["RepositorySettings"]


class RepositorySettings(Settings):
    """The image repository's end."""

    on_destroy: Literal["retain", "delete"] = Field(
        default="retain", description="Whether the images stay when the stack is destroyed."
    )
