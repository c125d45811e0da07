"""Collect the skill for agents from the pages' marked passages.

The form is that of https://agentskills.io/specification: a folder with the skill's name, and in it
`SKILL.md` with a description that agents read first.
"""

import re
from pathlib import Path

_DOCS = Path(__file__).parent
_HEAD = """---
name: embedding-kit
description: Choose, price and deploy a text-embedding or search endpoint on AWS Lambda in the
  user's own account with Embedding Kit, and change the model of an index. Use it for embeddings,
  semantic search or reranking on AWS, and in a clone of Embedding Kit.
license: Apache-2.0
compatibility: A clone of the repository, Python 3.11 to 3.14 and bash; to deploy, AWS
  credentials, the AWS CLI and npm.
---

# Embedding Kit

Work in the root of the clone. A deploy costs money and changes IAM: show the user what
`scripts/cost` prints, and ask first. After an error, look at
[these](../../operations.md#troubleshooting). All [pages](../../README.md)
and [settings](../../settings.md).
"""
#: The pages of each section, in order.
_SECTIONS = {
    "Size": ("models.md", "cost.md"),
    "Deploy": ("operations.md", "search.md"),
    "Migrate": ("migrate.md",),
}
_PASSAGE = re.compile(r"^<!-- skill -->\n(.*?)^<!-- end of skill -->\n", re.DOTALL | re.MULTILINE)


def skill_page() -> str:
    """Return the skill in Markdown."""
    parts = [_HEAD]
    for title, pages in _SECTIONS.items():
        parts += [f"## {title}\n", *(_passages(page) for page in pages)]
    return "\n".join(parts)


def _passages(page: str) -> str:
    found = _PASSAGE.findall((_DOCS / page).read_text(encoding="utf-8"))
    if not found:
        raise ValueError(f"a page of the skill must have a passage for it; found none in {page}")
    text = re.sub(r"<!-- not run: .*? -->\n", "", "\n".join(found))
    text = re.sub(r"\]\((#[^)]+)\)", rf"]({page}\1)", text)
    text = re.sub(r"^## ", "### ", text, flags=re.MULTILINE)
    return re.sub(r"\]\((?!https?:)", "](../../", text)
