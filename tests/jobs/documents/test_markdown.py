"""Markdown to blocks, as its readers show it."""

import pytest

from jobs.documents.document import Block, Outline, RefusedDocumentError
from jobs.documents.markdown import read_markdown


def read(markdown: str) -> Outline:
    outline = Outline()
    read_markdown(markdown, outline)
    outline.end_section()
    return outline


@pytest.mark.parametrize(
    ("markdown", "texts"),
    [
        (
            "A [*link* text](https://a.b/c 'title') and `x < y` &copy; <b>now</b>\\!",
            ["A link text and x < y © now!"],
        ),
        ("soft\nbreak and hard  \nbreak\\\nhere", ["soft break and hard\nbreak\nhere"]),
        (
            "a ![logo](data:image/svg+xml,A) b ![][i] c\n\n[i]: <data:image/png;base64,BB>\n[r]: x",
            ["a logo b c"],
        ),
        ("a<!-- x -->b\n\n<!--\n# x\nx\n-->\n\nc", ["ab", "c"]),
        (
            "Text[^1] and[^a]\n[^1]: Word\n[^a]: two\n  lines\n[r]: x",
            ["Text[^1] and[^a]", "[^1]: Word", "[^a]: two lines"],
        ),
        (
            "npm install <name> [-o <output file>], Vec<T>, <X-Card a=b>in</X-Card> <Tab to='x'/>",
            ["npm install <name> [-o <output file>], Vec<T>, in"],
        ),
        (
            "The <title> of a <nav>, a <script>\n\n<select> is last.",
            ["The <title> of a <nav>, a <script>", "<select> is last."],
        ),
        ("a <svg><title>x</title></svg>\n\n<script>\nx\n\nx</script>\n\nb", ["a", "b"]),
        ("- a\n  - b\n- [ ] c\n- [x] d", ["- a\n  - b\n- [ ] c\n- [x] d"]),
        (
            "3. a\n4. b\n\n   more\n\n   ```sh\n   ls\n   ```",
            ["3. a\n4. b", "   more", "```sh\nls\n```"],
        ),
        ("- Foo\n---\nBar", ["- Foo", "Bar"]),
        ("> a\n> b\n>\n> > c", ["> a b", "> > c"]),
        ("***\n\na\n\n* * *\n\nb", ["a", "b"]),
        ("<details>\n<summary>More</summary>\n\n**md**\n\n</details>", ["More", "md"]),
        ("\tindented\n\n\tcode", ["```\nindented\n\ncode\n```"]),
        ("~~old~~ **a**b*c*", ["old abc"]),
    ],
)
def test_blocks_are_what_readers_show(markdown, texts):
    """Without comments, targets of links, and marks."""
    assert [block.text for block in read(markdown).blocks] == texts


def test_a_table_and_a_fence_have_what_each_piece_of_them_needs():
    """The table its header, the fence its language."""
    assert read(
        "| a | b |\n|---|:-:|\n| 1 \\| 2 | `c` |\n| [d](e)\n\n~~~~ py title=x\n~~~\n\n 1\n~~~~"
    ).blocks == [
        Block("a | b\n1 | 2 | c\nd |", opening="a | b"),
        Block("```py\n~~~\n\n 1\n```", opening="```py", closing="```"),
    ]


@pytest.mark.parametrize(
    ("markdown", "heading"),
    [
        ('## <a name="f"></a>Foo `bar` **baz** {#id}', "Foo bar baz"),
        ("## [v1.2](https://a.b) (2020-01-01) ##", "v1.2 (2020-01-01)"),
        ("C\\# and F\\#\n---", "C# and F#"),
        ("## A &amp; B {: .no_toc }", "A & B"),
        ("two\nlines\n----", "two lines"),
        ("<h2 align=center><img src=x alt=Logo></h2>", "Logo"),
    ],
)
def test_a_heading_is_plain_text(markdown, heading):
    """Without links, ids and marks."""
    assert read(f"# Top\n\n{markdown}\n\ntext").blocks == [Block("text", ("Top", heading), 2)]


def test_levels_are_bounded():
    """The parser would leave out what is deeper."""
    with pytest.raises(RefusedDocumentError, match="more than 100 levels"):
        read(">" * 101 + "a")
    assert read(">" * 90 + "a").blocks
