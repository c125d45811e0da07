"""reStructuredText to HTML by docutils, and that to blocks."""

import re
from collections.abc import Collection
from typing import Any, ClassVar

from docutils import core, nodes
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.languages import en as english

from jobs.documents.decoding import decoded
from jobs.documents.document import Document, Outline
from jobs.documents.html import read_html

#: No file is read or written, nothing is run, and nothing but the body is written.
_SETTINGS = {
    "_disable_config": True,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": 5,
    "halt_level": 5,
    "doctitle_xform": False,
    "docinfo_xform": False,
    "initial_header_level": 1,
    "syntax_highlight": "none",
    "math_output": "LaTeX",
    "embed_stylesheet": False,
    "stylesheet_path": "",
    "line_length_limit": 1_000_000,
}
_DIRECTIVE = re.compile(
    r"^[ \t]*\.\.[ \t]+(?:\|[^|\n]+\|[ \t]+)?([\w:.+-]+?)[ \t]?::", re.MULTILINE
)
_ROLE = re.compile(r":([a-zA-Z][\w:.+-]*):`|`:([a-zA-Z][\w:.+-]*):")
#: Directives of Sphinx that show nothing, or links to other pages.
_INVISIBLE = re.compile(
    "toctree|index|highlight|(py:)?(current)?module|default-domain|sectionauthor|codeauthor|"
    "tabularcolumns|include|raw|contents|meta|auto\\w+"
)
_CODE = re.compile(
    "code|code-block|sourcecode|ipython|prompt|testcode|testoutput|doctest|highlight"
)
#: What Sphinx writes before a version.
_VERSIONS = {
    "versionadded": "Added in version ",
    "versionchanged": "Changed in version ",
    "versionremoved": "Removed in version ",
    "deprecated": "Deprecated since version ",
}
#: A link of Sphinx: its text, and maybe a target; `!`, `~` and `.` are signs.
_LINK = re.compile(r"[!~.]?(.*?)(?:\s*<[^<>]*>)?", re.DOTALL)


def read(data: bytes, content_type: str, _wanted: Collection[str]) -> Document:
    """Read the text. What docutils does not know, such as Sphinx's directives, keeps its text."""
    text = decoded(data, content_type)
    for name in map(str.lower, set(_DIRECTIVE.findall(text))):
        if _CODE.fullmatch(name):
            directives.register_directive(name, _Code)
        elif _INVISIBLE.fullmatch(name):
            directives.register_directive(name, _Invisible)
        elif name not in english.directives:
            directives.register_directive(name, _Unknown)
    for names in set(_ROLE.findall(text)):
        if (name := "".join(names).lower()) not in english.roles:
            roles.register_local_role(name, _unknown_role)
    tree = core.publish_doctree(text, settings_overrides=_SETTINGS)
    for message in list(tree.findall(nodes.system_message)):
        # What could not be parsed, such as a broken table.
        message.parent.replace(message, list(message.findall(nodes.literal_block)))
    parts = core.publish_from_doctree(tree, writer="html5", settings_overrides=_SETTINGS)
    outline = Outline()
    html = parts.decode()
    read_html(html[html.index("<body") :], outline)
    outline.end_section()
    return Document(outline.title, {}, outline.blocks)


class _AnyOption(dict[str, Any]):
    """Options of a directive, of which each is allowed."""

    def __missing__(self, _name: str) -> Any:
        return directives.unchanged


class _Unknown(Directive):  # type: ignore[misc]  # published without types
    """A directive of another program: its argument and its content."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar = _AnyOption({"class": directives.unchanged})

    def run(self) -> list[nodes.Node]:
        """Return the argument and the content as text."""
        argument = nodes.paragraph()
        if self.arguments:
            texts, _ = self.state.inline_text(self.arguments[0], self.lineno)
            argument += [nodes.Text(_VERSIONS.get(self.name, "")), *texts]
        content = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, content)
        return [*([argument] if self.arguments else []), *content.children]


class _Code(_Unknown):
    """Code of a language, with options that docutils does not have."""

    def run(self) -> list[nodes.Node]:
        """Return the content as code."""
        code = "\n".join(self.content)
        language = self.arguments[0].split()[0] if self.arguments else "none"
        block = nodes.literal_block(code, code)
        # As Sphinx has it: docutils takes a class with a language for one of people.
        return [nodes.container("", block, classes=["highlight", f"highlight-{language}"])]


class _Invisible(_Unknown):
    """A directive that shows nothing of its own."""

    def run(self) -> list[nodes.Node]:
        """Return nothing."""
        return []


def _unknown_role(
    _name: str, _rawtext: str, text: str, *_arguments: object
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    link = _LINK.fullmatch(nodes.unescape(text))
    return [nodes.Text(link[1] if link else text)], []
