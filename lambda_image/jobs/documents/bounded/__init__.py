"""Formats that are read in a process with limits.

A file of a few bytes can ask their libraries for any time and memory. Each is a module here, whose
`read` is a reader of `jobs.documents.reader`.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Collection
from typing import Any

import orjson

from jobs.documents.document import Block, Document, RefusedDocumentError

#: Limits of the process, in bytes and seconds of CPU time.
MEMORY = 1 << 30
CPU_SECONDS = 90
#: Seconds until the process is ended, if it waits for the CPU.
_SECONDS = 240
#: Exit status of a refusal, whose reason is on standard error.
REFUSED = 3


def bounded(name: str) -> Callable[[bytes, str, Collection[str]], Document]:
    """Return the reader of a format, the name of a module here."""

    def read(data: bytes, content_type: str, wanted: Collection[str]) -> Document:
        try:
            process = subprocess.run(  # noqa: S603 -- of the document, it has the content type only
                [sys.executable, "-P", "-W", "ignore", "-m", __name__, name, content_type, *wanted],
                input=data,
                capture_output=True,
                timeout=_SECONDS,
                # openpyxl takes others' parsers of XML if they happen to be installed.
                env={
                    "PYTHONPATH": ":".join(sys.path),
                    "OPENPYXL_LXML": "False",
                    "OPENPYXL_DEFUSEDXML": "False",
                },
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RefusedDocumentError(f"its text takes more than {_SECONDS} seconds") from None
        if process.returncode == REFUSED:
            raise RefusedDocumentError(process.stderr.decode(errors="replace").strip())
        if process.returncode == -signal.SIGXCPU:
            raise RefusedDocumentError(f"its text takes more than {CPU_SECONDS} s of CPU time")
        if process.returncode > 0:
            lines = process.stderr.decode(errors="replace").split("\n")
            raise RuntimeError(f"the reader of {name} ended: {' '.join(lines[-2:])}")
        if process.returncode:
            raise RefusedDocumentError(
                f"its text takes more than {MEMORY >> 20:,} MB of memory, or breaks its reader"
            )
        title, metadata, blocks, problems = orjson.loads(process.stdout)
        return Document(title, metadata, [_block(*block) for block in blocks], tuple(problems))

    return read


def _block(text: str, headings: list[str], *others: Any) -> Block:
    return Block(text, tuple(headings), *others)
