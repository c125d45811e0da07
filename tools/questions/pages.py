"""The pages that the questions are about, from Debian's packages, and how questions are drawn.

For another version of a package, draw and judge the questions again.
"""

import html
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tools.pinned_package import PinnedPackage, archive_of

QUESTIONS = Path(__file__).parent
#: How many questions are drawn for a set.
DRAWN = 200
#: Larger pages of git would be a third of all text.
_MAX_GIT_BYTES = 80_000
_NAME = re.compile(
    r'<h2>NAME</h2>\s*<div class="sectionbody">\s*<p>(?P<git>.*?)</p>\s*</div>'
    r'|<div class="refnamediv">.*?</h2>\s*<p>(?P<postgresql>.*?)</p></div>',
    re.DOTALL,
)
_DASH = re.compile(r"\s+[-—]\s+")
#: A list's begin and end, and an entry, of which an entry below it may be a part.
_INDEX = re.compile(r"<dl>|</dl>|<dt[^>]*>(.*?)</dt>", re.DOTALL)
_LINK = re.compile(r'class="indexterm" href="([^"#]+)')
_NUMBER = re.compile(r"(Chapter |Part )?[\dIVX]+(\.\d+)*\. ")


class PageSource(NamedTuple):
    """A package whose pages are in one folder."""

    package: PinnedPackage
    folder: str


POSTGRESQL = PageSource(
    PinnedPackage(
        "postgresql-doc-15",
        "15.20-0+deb12u1",
        "4c44bf2c599f208b3f46454a6cf7a72e25ec46ff74d37b59dd31ad76b00eebb7",
    ),
    "usr/share/doc/postgresql-doc-15/html",
)
GIT = PageSource(
    PinnedPackage(
        "git-doc",
        "1:2.39.5-0+deb12u3",
        "3c89668a11053a6bafade3de1f611f4613db31e082af63f43d8c5b69ad8795ec",
    ),
    "usr/share/doc/git-doc",
)


class Question(NamedTuple):
    """A text to search for, and the names of the pages that answer it."""

    query: str
    pages: list[str]


def read_questions(path: Path) -> list[Question]:
    """Return the questions of a file, an object a line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Question(**json.loads(line)) for line in lines]


def write_questions(path: Path, questions: list[Question]) -> None:
    """Write questions, as `read_questions` reads them."""
    lines = [json.dumps(question._asdict(), ensure_ascii=False) for question in questions]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def pages_of(source: PageSource, cache: Path) -> dict[str, str]:
    """Return the HTML pages of a package by their names."""
    pages = {}
    with tarfile.open(fileobj=io.BytesIO(archive_of(source.package, cache))) as files:
        for member in files:
            folder, _, name = member.name.removeprefix("./").rpartition("/")
            content = files.extractfile(member) if member.isfile() else None
            if content and folder == source.folder and name.endswith(".html"):
                pages[name] = content.read().decode()
    return pages


def manual(cache: Path) -> dict[str, str]:
    """Return the first three parts of PostgreSQL's manual: tutorial, language, administration."""
    pages = pages_of(POSTGRESQL, cache)
    return dict(_between(pages, "tutorial.html", "client-interfaces.html"))


def references(cache: Path) -> dict[str, str]:
    """Return the manual pages of PostgreSQL and git without their section NAME."""
    return {name: _NAME.sub("", page, count=1) for name, page in _named(cache).items()}


def _named(cache: Path) -> dict[str, str]:
    postgresql = dict(_between(pages_of(POSTGRESQL, cache), "reference.html", "internals.html"))
    git = sorted(pages_of(GIT, cache).items())
    small = {name: page for name, page in git if len(page.encode()) <= _MAX_GIT_BYTES}
    return {name: page for name, page in (postgresql | small).items() if _NAME.search(page)}


def _between(pages: Mapping[str, str], name: str, end: str) -> Iterator[tuple[str, str]]:
    """Yield the pages from one on to another, in the order in which they are read."""
    while name != end:
        yield name, pages[name]
        following = re.search(r'rel="next" href="([^"]+)"', pages[name])
        assert following is not None  # noqa: S101 - for mypy: `end` is linked
        name = following[1]


def draw_descriptions(cache: Path) -> list[Question]:
    """Return the description of each manual page, without the name; of several pages, the first."""
    questions: dict[str, Question] = {}
    for name, page in _named(cache).items():
        described = _NAME.search(page)
        assert described is not None  # noqa: S101 - for mypy
        description = _DASH.split(_plain(described["git"] or described["postgresql"]), 1)[1]
        questions.setdefault(description, Question(description, [])).pages.append(name)
    return _drawn([*questions.values()])


def draw_index_terms(cache: Path) -> list[Question]:
    """Return terms of several words of the manual's index that are no title of a page."""
    manual_pages = manual(cache)
    titles = {
        _NUMBER.sub("", _plain(page.partition("<title>")[2].partition("</title>")[0])).lower()
        for page in manual_pages.values()
    }
    questions: dict[str, set[str]] = {}
    path: list[str] = []
    depth = 0
    for entry in _INDEX.finditer(pages_of(POSTGRESQL, cache)["bookindex.html"]):
        if entry[1] is None:
            depth += 1 if entry[0] == "<dl>" else -1
            continue
        term = re.split(r', <a class="indexterm"|, <em|\(see', entry[1])[0]
        path[depth - 1 :] = [_plain(term)]
        questions.setdefault(" ".join(path), set()).update(_LINK.findall(entry[1]))
    return _drawn(
        [
            Question(term, sorted(pages))
            for term, pages in sorted(questions.items())
            if pages and pages <= manual_pages.keys()
            if " " in term and "_" not in term and term.lower() not in titles
        ]
    )


def _drawn(questions: list[Question]) -> list[Question]:
    """Return as many as are wanted, evenly from all."""
    return [questions[number * len(questions) // DRAWN] for number in range(DRAWN)]


def _plain(fragment: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", fragment)).split())


class QuestionSet(NamedTuple):
    """Questions, and the pages that are searched."""

    pages: Callable[[Path], dict[str, str]]
    #: Draws the questions of the file; None if a person wrote them.
    draw: Callable[[Path], list[Question]] | None


#: The sets by the names of their files.
SETS = {
    "manual": QuestionSet(manual, None),
    "descriptions": QuestionSet(references, draw_descriptions),
    "index_terms": QuestionSet(manual, draw_index_terms),
}
