"""The corpus check: which words it reports as lost, and which lines as flattened."""

import pytest

from tools.document_corpus.plain import PLAIN, Plain, flattened, lost_words


@pytest.mark.parametrize(
    ("plain", "chunks", "lost"),
    [
        ("one two two", ["one two", "two"], {}),
        ("one two two", ["one two"], {"two": 1}),
        ("ﬁle ＡＢ", ["file ab"], {}),
        ("東京は", ["東", "京"], {"は": 1}),
    ],
)
def test_each_word_is_counted(plain, chunks, lost):
    """Also the signs of a language without spaces, and ligatures as their letters."""
    assert lost_words(Plain(plain), chunks, as_letters=False) == lost


def test_words_of_a_pdf_may_end_elsewhere():
    """A word at the end of a line has a hyphen in one program and none in another."""
    plain = Plain("de- partment lostword")
    assert lost_words(plain, ["the department"], as_letters=True) == {"lostword": 1}


def test_a_line_that_is_one_with_the_next_is_flattened():
    """A line that is only longer, or cut, is not."""
    plain = Plain("", [["if a:", "    b = c", "", "d = e"]])
    assert flattened(plain, ["if a: b = c\nd = e"]) == ["if a"]
    assert flattened(plain, ["if a:\n    b = c\n\nd = e"]) == []


@pytest.mark.parametrize(
    ("suffix", "data", "text"),
    [
        (
            ".html",
            b"<head><title>t</title></head><nav>n</nav><p hidden>h</p><p>a<b>b</b></p>",
            "ab",
        ),
        (
            ".html",
            b"<ul><li><a href='#a'>x</a><li><a href='#b'>y</a><li><a href='#c'>z</a></ul>e",
            "e",
        ),
        (".md", b"---\na: b\n---\n<!-- c -->[d](http://e) `<f>` ![g](data:h)\n", "d f g"),
        (".csv", b"a,b\n1,NA\n", "1"),
        (".json", b'{"a": [1, null, false, "b"]}', "1 false b"),
    ],
)
def test_what_a_page_leaves_out_by_name_is_no_lost_word(suffix, data, text):
    """The rest of a document is compared."""
    assert PLAIN[suffix](data).text.replace("!", "").replace("[", "").replace("]", "").split() == (
        text.split()
    )
