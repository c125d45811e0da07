"""What became of documents: the end of `embed chunk` and of `scripts/serve --documents`."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from embedding_client.errors import counted

#: Lists of numbers, names in quotes and suffixes, of a sentence: they are of one document.
_NUMBER = r"(?:0x[0-9a-f]+|\d+(?:[.,]\d+)*)"
_OWN = re.compile(
    rf"(?<![\w-]){_NUMBER}(?:(?:, | and | to ){_NUMBER})*|(?<=\s')[^']+(?=')|(?<=; found )\..+"
)
#: The share of unknown tokens from which a model does not know the language.
_MANY_UNKNOWN = 0.1


class DocumentSummary:
    """Sums over documents, whose counts are those of `POST /chunk`."""

    def __init__(self) -> None:
        self.documents = 0
        self.refused = 0
        self._reasons: Counter[str] = Counter()
        self._problems: Counter[str] = Counter()
        self._sums: Counter[str] = Counter()
        self._longest = 0
        self._shortest: int | None = None

    def refuse(self, name: str, reason: str) -> str:
        """Count a document that cannot be read; return the line that names it."""
        self.refused += 1
        self._reasons[_OWN.sub("…", reason)] += 1
        return f"refused: {name}: {reason}"

    def add(self, name: str, counts: Mapping[str, int], problems: Iterable[str]) -> Iterator[str]:
        """Count a document; yield the lines with its problems."""
        self.documents += 1
        self._sums.update(counts)
        self._longest = max(self._longest, counts["longest"])
        self._shortest = min(counts["shortest"], self._shortest or counts["shortest"])
        for problem in problems:
            self._problems[_OWN.sub("…", problem)] += 1
            yield f"problem: {name}: {problem}"

    def lines(self) -> Iterator[str]:
        """Yield the summary."""
        chunks = counted(self._sums["chunks"], "chunk")
        if self._shortest is not None:
            shortest = f"{self._shortest:,} to " if self._shortest < self._longest else ""
            chunks += f" of {shortest}{counted(self._longest, 'token')}"
        yield f"{counted(self.documents, 'document')}, {chunks}"
        if self._sums["cut"]:
            yield f"{counted(self._sums['cut'], 'block')} cut: longer than a chunk"
        share = self._sums["unknown"] / max(1, self._sums["tokens"])
        if round(share, 3):
            known = ": it does not know the language" if share > _MANY_UNKNOWN else ""
            yield f"{share:.1%} of the tokens are unknown to the model{known}"
        yield from _grouped("problems", self._problems)
        yield from _grouped("refused", self._reasons)


def _grouped(what: str, sentences: Counter[str]) -> Iterator[str]:
    if sentences:
        yield f"{what}:"
        for sentence, count in sentences.most_common():
            yield f"{count:>6,} × {sentence}"
