"""The sets of questions, how they are drawn from pages, and the numbers of a search."""

from pathlib import Path

import pytest

from tools.questions import __main__ as measure
from tools.questions import pages
from tools.questions.pages import QUESTIONS, SETS, Question, read_questions

_PAGE = '<html><head><title>{title}</title><link rel="next" href="{following}" /></head>{text}'
_POSTGRESQL = {
    "tutorial.html": _PAGE.format(title="1. Start", following="a.html", text="a"),
    "a.html": _PAGE.format(title="1.1.\xa0Row locks", following="client-interfaces.html", text="b"),
    "reference.html": _PAGE.format(title="Reference", following="sql-abort.html", text="c"),
    "sql-abort.html": _PAGE.format(
        title="ABORT",
        following="internals.html",
        text='<div class="refnamediv"><h2>x</h2><p>ABORT — abort it &amp; all</p></div><p>d</p>',
    ),
    "bookindex.html": '<dl><dt>lock</dt><dd><dl><dt>of rows, <a class="indexterm" href="a.html#X">'
    'b</a></dt></dl></dd><dt>row locks, <a class="indexterm" href="a.html">b</a></dt><dt>a_b c, '
    '<a class="indexterm" href="a.html">b</a></dt><dt>far away, <a class="indexterm" '
    'href="other.html">b</a></dt></dl>',
}
_GIT = {
    "git-am.html": '<h2>NAME</h2>\n<div class="sectionbody">\n<p>git-am -\n abort it &amp; all\n'
    "</p>\n</div>e",
    "readme.html": "no name",
}


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put small pages in the place of the packages, and draw one question of a set."""
    packages = {pages.POSTGRESQL: _POSTGRESQL, pages.GIT: _GIT}
    monkeypatch.setattr(pages, "pages_of", lambda package, _: packages[package])
    monkeypatch.setattr(pages, "DRAWN", 1)
    return Path()


def test_questions_are_drawn_from_pages(cache):
    """A description of several pages is one question; a title of a page and a name are none."""
    assert pages.draw_descriptions(cache) == [
        Question("abort it & all", ["sql-abort.html", "git-am.html"])
    ]
    assert pages.draw_index_terms(cache) == [Question("lock of rows", ["a.html"])]


def test_a_page_does_not_have_the_question(cache):
    """Its section NAME is cut; the manual is read in order, up to the next part."""
    cut = pages.references(cache)
    assert cut.keys() == {"sql-abort.html", "git-am.html"}
    assert not any("abort it" in page for page in cut.values())
    assert [*pages.manual(cache)] == ["tutorial.html", "a.html"]


@pytest.mark.parametrize("name", SETS)
def test_each_set_has_questions_with_pages(name):
    """No question is twice in a set."""
    questions = read_questions(QUESTIONS / f"{name}.jsonl")
    assert len({question.query for question in questions}) == len(questions) >= 60
    assert all(question.pages for question in questions)


def test_the_numbers_of_a_search():
    """A page counts for nDCG by its place, and for recall among the best ten; a miss is 0."""
    questions = [Question("a", ["x", "y"]), Question("b", ["z"]), Question("c", ["z"])]
    ranked = [["y", "n", "x"], ["n"] * 10 + ["z"], []]
    assert measure.ndcg(questions, ranked) == pytest.approx([1.5 / 1.63093, 0, 0], abs=1e-5)
    assert [*measure.recall(questions, ranked)] == [1, 0, 0]
    results = [{"source": name} for name in "abacb"]
    assert measure.pages_in(results) == ["a", "b", "c"]
    assert measure.difference(measure.recall(questions, ranked) - 0.5).startswith("-0.167 [")
