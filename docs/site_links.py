"""A hook of MkDocs: links from a page to files outside of docs/ lead to the repository."""

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]*)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Return the page's text with these links replaced."""
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join("docs", folder, link[1]))
        if not link[1] or (path.startswith("docs/") and not path.startswith("docs/examples/")):
            return link[0]
        return f"]({config['repo_url'].rstrip('/')}/blob/main/{path}{link[2] or ''})"

    return _LINK.sub(replaced, markdown)
