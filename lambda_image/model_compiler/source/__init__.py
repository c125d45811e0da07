"""Where models come from: a folder, a wheel or a hub, and the catalog of those that are known."""

from dataclasses import dataclass
from pathlib import Path

from model_compiler.source.catalog import CatalogEntry


@dataclass(frozen=True, slots=True)
class Source:
    """A model on this machine."""

    folder: Path
    name: str
    #: The commit of the download; None for a folder.
    revision: str | None
    #: The short name of its license, if known.
    license: str | None
    entry: CatalogEntry | None = None
    #: Whether the hub's newest commit was downloaded, because nothing names another.
    newest: bool = False
    #: The paths of all files in the hub's repository, also of those that were not downloaded; None
    #: if all files are in the folder.
    files: frozenset[str] | None = None
    #: The model that an adapter is for, which it is merged into.
    base: str | None = None
