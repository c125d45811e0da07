"""Markdown to blocks."""

import re

from jobs.documents.document import Outline

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def read_markdown(text: str, outline: Outline) -> None:
    """Add the blocks of Markdown without front matter to an outline."""
    lines: list[str] = []
    fence = ""

    def end() -> None:
        outline.add("\n".join(lines))
        lines.clear()

    for line in text.split("\n"):
        marker = _FENCE.match(line)
        if fence:
            lines.append(line)
            if marker and marker[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
                end()
        elif marker:
            end()
            fence = marker[1]
            lines.append(line)
        elif heading := _HEADING.match(line):
            end()
            outline.begin(len(heading[1]), heading[2] or "")
        elif (rule := _UNDERLINE.match(line)) and len(lines) == 1:
            outline.begin(1 if rule[1][0] == "=" else 2, lines.pop())
        elif line.strip():
            lines.append(line)
        else:
            end()
    end()
