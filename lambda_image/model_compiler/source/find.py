"""Finds a model: a folder, a wheel or a hub repository becomes a folder of checked files."""

import functools
import importlib.metadata
import importlib.util
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from model_compiler.errors import LicenseError, SourceError
from model_compiler.files.hashes import file_sha256, verify_files
from model_compiler.graph.quantization import Precision
from model_compiler.source import catalogue, hub
from model_compiler.source.catalogue import CatalogueEntry, Wheel

__all__ = ["Source", "find_source"]


@dataclass(frozen=True, slots=True)
class Source:
    """A model on this machine's disk."""

    folder: Path
    name: str
    #: The commit that it was fetched at; none for a folder.
    revision: str | None
    #: The short name of its license, where it is known.
    license: str | None
    entry: CatalogueEntry | None


def find_source(
    model: str,
    *,
    revision: str | None = None,
    accepted_licenses: Collection[str] = (),
    precision: Precision | None = None,
) -> Source:
    """Bring a model to this machine's disk and check its files.

    Args:
        model: a folder, a name of the catalogue, or `owner/name` of a hub repository.
        revision: a commit, branch or tag of the hub repository; by default the catalogue's
            commit, or the newest.
        accepted_licenses: names of licenses whose terms the user accepts.
        precision: which of several ready exports is wanted.

    Raises:
        SourceError: if it is not there, cannot be fetched, or a file's hash is not the known one.
        LicenseError: if its terms have to be accepted and are not.
    """
    folder = Path(model)
    if folder.is_dir():
        return _folder(folder, revision=revision)
    entry = catalogue.find(model)
    if entry:
        _check_license(entry, accepted_licenses)
        return _known(entry, revision=revision, precision=precision)
    if not hub.is_repository_name(model):
        names = ", ".join(known.name for known in catalogue.CATALOGUE)
        raise SourceError(
            f"{model!r} is no folder, no model of the catalogue and no repository of a hub "
            f"(owner/name). The catalogue has {names}."
        )
    found = hub.download(model, revision=revision, precision=precision)
    return Source(
        folder=found.folder,
        name=model,
        revision=found.commit,
        license=found.license,
        entry=None,
    )


def _folder(folder: Path, *, revision: str | None) -> Source:
    if revision:
        raise SourceError(f"{folder} is a folder, which has no revision {revision!r} to choose.")
    entry = _recognized(folder)
    return Source(
        folder=folder,
        name=entry.name if entry else _unicode(folder.resolve().name),
        revision=None,
        license=entry.license.name if entry else None,
        entry=entry,
    )


def _unicode(name: str) -> str:
    """Return a folder's name as text that JSON can hold, whatever its bytes are."""
    return os.fsencode(name).decode("utf-8", "replace")


def _recognized(folder: Path) -> CatalogueEntry | None:
    """Return the catalogue's model that a folder holds, as the hashes of its files say; or none."""

    @functools.cache
    def found(name: str) -> str | None:
        """Hash a file of the folder, once for all entries; None where it is not there."""
        path = folder / name
        return file_sha256(path) if path.is_file() else None

    def size(name: str) -> int:
        return (folder / name).stat().st_size if (folder / name).is_file() else 0

    for entry in catalogue.CATALOGUE:
        # The smallest file first: most folders differ in it, and then no large one is hashed.
        names = sorted(entry.sha256, key=size)
        if names and all(found(name) == entry.sha256[name] for name in names):
            return entry
    return None


def _check_license(entry: CatalogueEntry, accepted: Collection[str]) -> None:
    terms = entry.license
    if terms.must_be_accepted and terms.name not in accepted:
        raise LicenseError(
            f"{entry.name} comes under terms that you have to accept yourself: {terms.url}. "
            f"If you do, say so: `--accept-license {terms.name}` here, or "
            f'`accept_license = "{terms.name}"` in environments/NAME.toml for a deploy.'
        )


def _known(entry: CatalogueEntry, *, revision: str | None, precision: Precision | None) -> Source:
    folder = None if revision else _wheel_folder(entry.wheel)
    if folder:
        found, commit = folder, None
    else:
        downloaded = hub.download_first(entry.repositories, revision=revision, precision=precision)
        found, commit = downloaded.folder, downloaded.commit
    # Another revision than the pinned one has files of its own.
    wrong = verify_files(found, {} if revision else entry.sha256)
    if wrong:
        raise SourceError(
            f"{found} is not {entry.name} as the catalogue knows it: {'; '.join(wrong)}."
        )
    return Source(
        folder=found,
        name=entry.name,
        revision=commit,
        license=entry.license.name,
        entry=entry,
    )


def _wheel_folder(wheel: Wheel | None) -> Path | None:
    """Return the folder of a wheel that is installed in the right version, without importing it."""
    if wheel is None:
        return None
    try:
        version = importlib.metadata.version(wheel.distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    spec = importlib.util.find_spec(wheel.package)
    if version != wheel.version or spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / wheel.folder
