"""What became of documents: the end of `embed chunk` and of `scripts/serve --documents`."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple

from embedding_client.errors import counted

#: Numbers of a reason, which are of one document.
_NUMBER = re.compile(r"\d[\d.,]*")


class DocumentReport(NamedTuple):
    """Numbers of a document that was read."""

    name: str
    #: Tokens of each chunk, in the document's order.
    tokens: Collection[int]
    #: Sentences on what was left out.
    problems: Collection[str] = ()


class DocumentSummary:
    """Sums over documents."""

    def __init__(self) -> None:
        self.documents = 0
        self.refused = 0
        self._reasons: Counter[str] = Counter()
        self._tokens: list[int] = []

    def refuse(self, name: str, reason: str) -> str:
        """Count a document that cannot be read; return the line that names it."""
        self.refused += 1
        self._reasons[_NUMBER.sub("…", reason)] += 1
        return f"refused: {name}: {reason}"

    def add(self, report: DocumentReport) -> Iterator[str]:
        """Count a document; yield the lines with its problems."""
        self.documents += 1
        self._tokens += report.tokens
        for problem in report.problems:
            yield f"left out: {report.name}: {problem}"

    def lines(self) -> Iterator[str]:
        """Yield the summary."""
        chunks = counted(len(self._tokens), "chunk")
        if self._tokens:
            chunks += f" of {min(self._tokens):,} to {counted(max(self._tokens), 'token')}"
        yield f"{counted(self.documents, 'document')}, {chunks}"
        if self.refused:
            yield f"{counted(self.refused, 'document')} refused:"
            for reason, count in self._reasons.most_common():
                yield f"{count:>5,}  {reason}"
