"""A hook of MkDocs: the home is the repository's README, links outside of docs/ lead there.

Each class of the reference is closed until a reader opens it.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

_README = Path(__file__).parents[1] / "README.md"
_CLASS = re.compile(r"^::: (\S+\.(\w+))$", re.MULTILINE)
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

    if (boost := _boost(page.file.src_uri, markdown)) is not None:
        page.meta["search"] = {"boost": boost}
    markdown = _CLASS.sub(r'??? abstract "\2"\n\n    ::: \1', markdown)
    return _LINK.sub(replaced, markdown)


def _boost(page: str, markdown: str) -> float | None:
    """Return how much more than others a page weighs in a search."""
    if page == "front.md":
        # "API keys" and "private networks" are sections; other pages have the words in titles.
        return 3
    # The many names of classes would be the first answers to most words.
    return 0.3 if _CLASS.search(markdown) else None


def _home() -> str:
    """Return the README without the badge and the links that the navigation has."""
    text = _README.read_text(encoding="utf-8")
    text = re.sub(r'<p align="center">\n<a .*?</p>\n', "", text, flags=re.DOTALL)
    return re.sub(r"<h1[^>]*>(.*)</h1>", r"# \1", text)
