"""HTML to blocks: what a browser shows, without navigation."""

import re
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.documents.document import Block, Outline, RefusedDocumentError
from jobs.documents.html import read_html


def read(html: str) -> Outline:
    outline = Outline()
    read_html(html, outline)
    outline.end_section()
    return outline


CODE = "def f():\n\n    return 1"


@pytest.mark.parametrize(
    ("html", "texts"),
    [
        # What is no block is part of a line.
        (
            "<p>Press <nobr>the</nobr> <x-key>F1</x-key> <meter>5</meter> key.",
            ["Press the F1 5 key."],
        ),
        (
            "<p>A <img src=data:x alt='red dot'> here<img alt=''>, <img alt=a_b.png>.",
            ["A red dot here, ."],
        ),
        ("<p><ruby>本<rp>(</rp><rt>hon</rt><rp>)</rp></ruby>屋", ["本(hon)屋"]),
        (
            "<p>&lt;a&gt; &amp;&nbsp;&eacute;&#8364; fi<wbr>nd<br>next\nline",
            ["<a> & é€ find\nnext line"],
        ),
        (
            "one<br><br>two<hr>three<div>four<x-card><p>five</p></x-card>six</div>",
            ["one", "two", "three", "four", "five", "six"],
        ),
        ("<p>Say <q>yes</q><button>OK</button><button>No</button>", ["Say “yes” OK No"]),
        (
            "10<sup>3</sup> m<sup>2</sup>, 1<sup>st</sup><sup><a href=#n>2</a></sup>",
            ["10^3 m^2, 1st 2"],
        ),
        (
            '<?xml version="1.0"?><title/><script src="a"/><a id="x"/><p>a<i title=">" /> b<br/>c',
            ["a b\nc"],
        ),
        # Lists
        (
            "<ul><li>a<li><p>b</p><ol start=3><li>c<br>d<li value=9>e</ol></ul>",
            ["- a\n- b\n  3. c\n     d\n  9. e"],
        ),
        ("<ul><li>a<li>b<li><p>c</p><p>d</p><li>e</ul>", ["- a\n- b\n- c", "  d", "- e"]),
        ("<dl><dt>kettle<dd>boils<dt>tap<dd>runs</dl>", ["kettle\n  boils\ntap\n  runs"]),
        (
            "<ul><li><input type=checkbox>wash<li><input type=checkbox checked>dry</ul>",
            ["- [ ] wash\n- [x] dry"],
        ),
        ("<blockquote>one<br>two<p>three</blockquote>", ["> one\n> two", "> three"]),
        # Tables
        (
            "<table><caption>Pens</caption><tr><th>Name<th>Price<tr><td>red<br>thin<td>3<tr><td><td>4</table>",
            ["Pens", "Name | Price\nred thin | 3\n| 4"],
        ),
        (
            "<table><tr><td><ul><li>a<li>b</ul><td><h2>Big</h2>text<td>c<tr><td>d<td>e</table>",
            ["- a\n- b", "text", "c\nd | e"],
        ),
        (
            "<table><tr><td>out<td><table><tr><td>1<td>2</table>after</table>",
            ["out", "1 | 2", "after"],
        ),
        (
            f"<table><tr><td>{'word ' * 150}<td>{'more ' * 150}</table>",
            [("word " * 150).strip(), ("more " * 150).strip()],
        ),
        # Preformatted text
        (f"<pre>{CODE}\n\n</pre>", ["def f():", "    return 1"]),
        (f"<pre><code>{CODE}</code></pre>", [f"```\n{CODE}\n```"]),
        ("<pre><code>```</code></pre>", ["````\n```\n````"]),
        (
            "<pre class=code><div>a</div><div>b<button>Copy</button></div>c<br>d</pre>",
            ["```\na\nb\nc\nd\n```"],
        ),
        (
            "<div class=fragment><div class=line><i class=lineno>1</i>a</div><div>  b</div></div>",
            ["```\na\n  b\n```"],
        ),
        ("<table><tr><td class=linenos><pre>1\n2</pre><td><pre>a\nb</pre></table>", ["a\nb"]),
        # What is not shown, or is navigation
        *[
            (f"<p>a</p>{hidden}<p>b</p>", ["a", "b"])
            for hidden in [
                "<nav>x</nav>",
                "<div role=navigation>x</div>",
                "<div hidden>x</div>",
                "<!-- x -->",
                "<i aria-hidden=true>x</i>",
                "<template>x</template>",
                "<script>x</script>",
                "<style>x</style>",
                "<noscript>x</noscript>",
                "<svg><title>x</title></svg>",
                "<div style='color: red; display : none'>x</div>",
                "<table class=navheader><tr><td>x</table>",
                "<div class=header><p>Next: <a href=x rel=next>x</a>, Up: <a rel=up>x</a></div>",
                "<select><option>x</select>",
                "<div id=toc>x</div>",
                "<iframe>x</iframe>",
                "<ul><li><a href=#a>x</a><li><a href=#b>x</a><ul><li><a href=#c>x</a></ul></ul>",
                "<p><a href=#a>x</a> | <a href=#b>x</a> | <a href=#c>x</a>",
            ]
        ],
        (
            "<p>a <a href=#b>b</a><ul><li><a href=#a>x</a><li><a href=y>y</a><li><a href=#z>z</a>",
            ["a b", "- x\n- y\n- z"],
        ),
        ("<header><p>a</header><p hidden=until-found>b</p><footer>c</footer>", ["a", "b", "c"]),
    ],
)
def test_blocks_are_what_a_browser_shows(html, texts):
    """Each is a paragraph, a list, a table or code; navigation is none."""
    assert [block.text for block in read(html).blocks] == texts


@pytest.mark.parametrize(
    ("html", "block"),
    [
        *[
            (
                html.replace("CODE", CODE),
                Block(f"```{name}\n{CODE}\n```", opening=f"```{name}", closing="```"),
            )
            for html, name in [
                ("<pre><code class='hljs language-py'>CODE</code></pre>", "py"),
                ("<pre class='sourceCode python'><code>CODE</code></pre>", "python"),
                ("<div class='highlight-c++ notranslate'><div class=highlight><pre>CODE", "c++"),
                ("<pre class=programlisting>CODE</pre>", ""),
                ("<div class=highlight-default><pre>CODE</pre>", ""),
            ]
        ],
        (
            "<table><thead><tr><td>a<td>b<tbody><tr><td>1<td>2</table>",
            Block("a | b\n1 | 2", opening="a | b"),
        ),
        ("<table><tr><th>a<td>1<tr><th>b<td>2</table>", Block("a | 1\nb | 2")),
    ],
)
def test_a_block_that_is_cut_begins_and_ends_as_the_whole(html, block):
    """Code with its language, a table with its header."""
    assert read(html).blocks == [block]


@pytest.mark.parametrize(
    "heading",
    [
        "<h2>Sort it</h2>",
        "<h2><div>Sort</div><p>it</h2>",
        "<h2><tt>Sort</tt> <x-i></x-i>it<a class=headerlink href=#s>Link to this part</a></h2>",
        "<h2>Sort<br>it <a href='#s'>¶</a></h2>",
        "<h2><a class=header-anchor href=#s><span>Sort it</span></a></h2>",
        "<h2><a class=permalink href=/sort>Sort it</a></h2>",
        "<h2><a href=#s></a><button>Sort <img src=s.png alt=it></button></h2>",
        "<table><tr><td><h2>Sort it</h2></table>",
        "<ul><li><h2>Sort <pre>it</pre></h2></ul>",
    ],
)
def test_a_heading_is_plain_text(heading):
    """Without permalinks, and with what is in blocks in it."""
    outline = read(f"<title>The &lt;page&gt;</title><body><h1>Top</h1>{heading}text")
    assert outline.title == "The <page>"
    assert outline.blocks[-1] == Block("text", ("Top", "Sort it"), 2)


def test_a_page_may_be_deeper_than_a_stack():
    """The innermost text is read."""
    html = "<div>" * 5000 + "<ul><li>" * 500 + "deep"
    assert read(html).blocks[-1].text.split() == ["-"] * 8 + ["deep"]


TAGS = re.findall(
    r"\S+",
    "a b blockquote br caption code dd div dl dt h1 h2 li ol p pre q rt sup table td th "
    "thead tr ul x-y",
)
PAGES = st.recursive(
    st.just("WORD "),
    lambda inner: st.tuples(st.sampled_from(TAGS), st.lists(inner, max_size=4)).map(
        lambda element: f"<{element[0]}>{''.join(element[1])}</{element[0]}>"
    ),
    max_leaves=25,
)


@given(PAGES)
def test_no_word_is_lost(page):
    """In any nesting of lists, tables, code and headings; a heading may be above many blocks."""
    numbers = count()
    html = re.sub("WORD", lambda _: f"w{next(numbers)}", page)
    blocks = read(html).blocks
    words = re.findall(r"w\d+", " ".join(block.text for block in blocks))
    headings = [name for block in blocks for name in block.headings]
    assert {*words, *re.findall(r"w\d+", " ".join(headings))} == {*re.findall(r"w\d+", html)}


def test_a_page_that_only_leads_to_another_is_refused():
    """Its words answer nothing. A page that is loaded again after a time has others."""
    page = '<meta http-equiv="{}" content="{}"><p>The node you are looking for is at X.'
    with pytest.raises(RefusedDocumentError, match="it only leads to another page"):
        read_html(page.format("Refresh", "0; url=Minimizers.html#X"), Outline())
    outline = Outline()
    read_html(page.format("refresh", "300"), outline)
    assert len(outline.blocks) == 1
