"""Documents of several parts: the title in their properties, and sections that end with a part."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jobs.documents.document import Block

#: What programs write as the title of a document that has none.
_NO_TITLE = re.compile(
    r"^Microsoft \w+ - |^(untitled.*|\(anonymous\)|(PowerPoint|Slide) ?(Presentation|1))$",
    re.IGNORECASE,
)


def own_title(title: str) -> str:
    """Return a title without what programs put in its place."""
    return _NO_TITLE.sub("", " ".join(title.split()))


def in_order(parts: Iterable[tuple[Iterable[Block], Mapping[str, Any]]]) -> Iterator[Block]:
    """Yield the blocks of all parts, with the metadata of each; no section is in two parts."""
    sections: dict[tuple[int, int], int] = {}
    for part, (blocks, metadata) in enumerate(parts):
        for block in blocks:
            section = sections.setdefault((part, block.section), len(sections))
            yield block._replace(section=section, metadata={**metadata, **block.metadata})
