"""PDF to a block for each paragraph, under its page."""

import subprocess
import sys
from collections.abc import Collection

import orjson

from jobs.documents.document import Block, Document, Outline, RefusedDocumentError
from jobs.documents.text import read_text

_SECONDS = 120


def read_pdf(data: bytes, _content_type: str, _wanted: Collection[str]) -> Document:
    """Read the text layer of a PDF, in a process with limits: a page can ask for any memory."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "jobs.documents.pdf_text"],
            input=data,
            capture_output=True,
            timeout=_SECONDS,
            env={"PYTHONPATH": ":".join(sys.path)},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RefusedDocumentError(f"its text takes more than {_SECONDS} seconds") from None
    if done.returncode == 1:
        raise RefusedDocumentError(done.stderr.decode(errors="replace").strip()[-200:])
    if done.returncode:
        raise RefusedDocumentError("its text takes more memory or time than allowed")
    title, pages = orjson.loads(done.stdout)
    blocks: list[Block] = []
    for number, page in enumerate(pages, 1):
        outline = Outline()
        read_text(page, outline)
        blocks += [
            block._replace(headings=(f"page {number}",), section=number) for block in outline.blocks
        ]
    return Document(title, {}, blocks)
