"""The packages of the image of jobs, without those that only the development needs."""

import sys
from pathlib import Path

import pytest

from jobs.documents.reader import read_document
from tests.jobs.documents.bounded.files import docx, epub, paragraph, pptx, shape, slide
from tests.jobs.documents.bounded.test_formats import workbook
from tests.jobs.documents.bounded.test_pdf import encrypted
from tools.pinned_environment import pinned_environment

ROOT = Path(__file__).resolve().parents[4]
FILES = {
    ".pdf": encrypted("AES-256", user=""),
    ".docx": docx(paragraph("text")),
    ".pptx": pptx(slide(shape("text"))),
    ".xlsx": workbook(),
    ".epub": epub("<h1>One</h1><p>text"),
    ".ipynb": b'{"cells": [{"cell_type": "code", "source": "x = 1"}]}',
    ".rst": b"Head\n====\n\n.. note:: text",
    ".json": b'[{"name": "Pen"}]',
    ".eml": b"Subject: x\n\ntext",
    # Small ones are read without a process.
    ".html": b"<p>text</p>" * 9999,
    ".md": b"---\nyear: 2024\n---\n" + b"| a | b |\n|---|---|\n| 1 | 2 |\n\n" * 9999,
}


@pytest.mark.slow
def test_each_format_is_read_as_on_this_machine(monkeypatch, tmp_path):
    """A package that another one of the development brings along is not in the image."""
    names = ("requirements.txt", "batch-requirements.txt")
    pins = tmp_path / "pins.txt"
    pins.write_text("\n".join((ROOT / "lambda_image" / name).read_text() for name in names))
    python = pinned_environment("image-of-jobs", pins)

    def read():
        return {
            suffix: read_document(f"a{suffix}", data, {}, wanted=("year",))
            for suffix, data in FILES.items()
        }

    here = read()
    monkeypatch.setattr("sys.executable", str(python))
    monkeypatch.setattr("sys.path", [path for path in sys.path if "site-packages" not in path])
    assert read() == here
