"""`python -m tools.document_corpus`: whether documents that others wrote are read whole.

Each file of the corpus is read and divided as the function of `[ingest]` does it, with the
tokenizer of all-MiniLM-L6-v2. A word of a plain extraction that no chunk has, a chunk over the
limit, a line of code or of a table that is one with the next, and CPU time over 2 seconds (of a
PDF, for 100 pages) are failures. It needs apt and npm, which download the packages once, and
pdftotext.
"""

import argparse
import io
import multiprocessing
import os
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import NamedTuple

import pypdf

from embedder.core.artifact import load_artifact
from embedder.core.engine import Engine
from jobs.documents.chunking import Chunker
from jobs.documents.document import Chunk, RefusedDocumentError
from jobs.documents.reader import read_document
from tools.document_corpus.plain import PLAIN, flattened, lost_words
from tools.document_corpus.sources import HIDDEN, REFUSED, CorpusFile, corpus_files
from tools.local_endpoint.models import DEFAULT_MODEL, ROOT, artifact_of

_CACHE = ROOT / ".cache" / "document-corpus"
#: CPU time of a document; of a PDF, for each 100 pages.
_SECONDS = 2.0


class Result(NamedTuple):
    """A file as it was read."""

    name: str
    chunks: list[Chunk]
    #: CPU time, of processes that read a format too.
    seconds: float
    #: Why it was refused.
    refusal: str = ""
    #: Words that no chunk has, in all.
    lost: int = 0
    #: Lines that are one with the next one.
    flattened: int = 0
    #: Sentences on what is wrong.
    failures: Sequence[str] = ()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table of formats; return 1 if a document is not read as it should be."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.document_corpus", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("pattern", nargs="*", help="read only files with one of these names")
    options = parser.parse_args(arguments)
    artifact_of(DEFAULT_MODEL)  # once, before each process loads it
    files = [
        file
        for file in corpus_files(_CACHE)
        if not options.pattern or any(pattern in file.name for pattern in options.pattern)
    ]
    with multiprocessing.Pool(os.cpu_count()) as pool:
        results = pool.map(read, files, chunksize=1)
    _print_table(results)
    failed = [result for result in results if result.failures]
    for result in failed:
        print(f"{result.name}: {'; '.join(result.failures)}")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


@cache
def _chunker() -> Chunker:
    return Chunker(Engine.load(load_artifact(artifact_of(DEFAULT_MODEL))).request_tokenizer)


def read(file: CorpusFile) -> Result:
    """Read a file, and compare its chunks with a plain extraction."""
    chunker, suffix = _chunker(), PurePosixPath(file.name).suffix
    began = sum(os.times()[:4])
    try:
        document = read_document(file.name, file.data, {}, wanted=())
        # Processes pass no views of mappings.
        chunks = [chunk._replace(metadata={}) for chunk in chunker.chunks(document.blocks)]
    except RefusedDocumentError as error:
        failures = [] if file.name.endswith(REFUSED) else [f"refused: {error}"]
        return Result(file.name, [], sum(os.times()[:4]) - began, str(error), failures=failures)
    seconds = sum(os.times()[:4]) - began
    plain = PLAIN[suffix](file.data)
    texts = [document.title, *(" ".join([*chunk.headings, chunk.text]) for chunk in chunks)]
    lost = lost_words(plain, texts, as_letters=suffix == ".pdf")
    if file.name.endswith(HIDDEN):
        lost.clear()
    flat = flattened(plain, [chunk.text for chunk in chunks])
    pages = len(pypdf.PdfReader(io.BytesIO(file.data)).pages) if suffix == ".pdf" else 0
    failures = []
    if lost:
        failures.append(f"lost {lost.total()}: {', '.join(list(lost)[:8])}")
    if flat:
        failures.append(f"flattened {len(flat)}: {flat[0]!r}")
    longest = max(chunk.tokens for chunk in chunks)
    if longest > chunker.settings[0]:
        failures.append(f"a chunk has {longest} tokens")
    if seconds > _SECONDS * max(1, pages / 100):
        failures.append(f"{seconds:.1f} s of CPU time")
    return Result(file.name, chunks, seconds, "", lost.total(), len(flat), failures)


def _print_table(results: Sequence[Result]) -> None:
    by_format: defaultdict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_format[PurePosixPath(result.name).suffix].append(result)
    print("|format|files|read|chunks|most tokens|lost words|flattened|most CPU seconds|")
    print("|---|---|---|---|---|---|---|---|")
    for suffix, group in [*sorted(by_format.items()), ("all", list(results))]:
        chunks = [chunk for result in group for chunk in result.chunks]
        cells = [
            suffix,
            len(group),
            sum(not result.refusal for result in group),
            len(chunks),
            max((chunk.tokens for chunk in chunks), default=0),
            sum(result.lost for result in group),
            sum(result.flattened for result in group),
            f"{max(result.seconds for result in group):.2f}",
        ]
        print(f"|{'|'.join(map(str, cells))}|")
    refused = Counter(result.refusal for result in results if result.refusal)
    for refusal, count in refused.items():
        print(f"refused {count}: {textwrap.shorten(refusal, 160)}")


if __name__ == "__main__":
    sys.exit(main())
