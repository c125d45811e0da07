"""Where models come from: a folder, a wheel or a hub, and the catalog of those that are known."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from model_compiler.source.catalog import CatalogEntry

if TYPE_CHECKING:  # Programs that need only the catalog import no onnx.
    from model_compiler.model.folder import ModelFolder


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model on this machine."""

    folder: "ModelFolder"
    name: str
    #: The commit of the download; None for a folder.
    revision: str | None
    #: The short name of its license, if known.
    license: str | None
    entry: CatalogEntry | None = None
    #: Whether the hub's newest commit was downloaded, because nothing names another.
    newest: bool = False
    #: The model that an adapter is for, which it is merged into.
    base: str | None = None

    @property
    def task(self) -> str | None:
        """The task that the catalog knows of a model that gives scores; else None."""
        return self.entry.task if self.entry and self.entry.task != "embed" else None
