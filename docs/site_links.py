"""A hook of MkDocs: the home is the repository's README, and links outside of docs/ lead there."""

import posixpath
import re
from pathlib import Path
from typing import Any

_README = Path(__file__).parents[1] / "README.md"
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]*)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Return the page's text with these links replaced; of the home, that of the README."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))
    if page.file.src_uri == "README.md":
        markdown, folder = _home(), ""

    def replaced(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        if (link[1] and not path.startswith("docs/")) or path.startswith("docs/examples/"):
            return f"]({config['repo_url'].rstrip('/')}/blob/main/{path}{link[2] or ''})"
        return link[0].replace("](docs/", "](")

    return _LINK.sub(replaced, markdown)


def _home() -> str:
    """Return the README without the badge and the links that the navigation has."""
    text = _README.read_text(encoding="utf-8")
    text = re.sub(r'<p align="center">\n<a .*?</p>\n', "", text, flags=re.DOTALL)
    return re.sub(r"<h1[^>]*>(.*)</h1>", r"# \1", text)
