"""The documentation as a site."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site; broken links, anchors and references are errors, and so are lost pages."""
    folder = tmp_path_factory.mktemp("site")
    ran = subprocess.run(
        [
            Path(sys.executable).with_name("mkdocs"),
            "build",
            "--strict",
            "-f",
            "tools/mkdocs.yml",
            "-d",
            folder,
        ],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return folder


@pytest.mark.slow
def test_classes_are_on_the_pages_of_the_reference(site):
    """Their docstrings are rendered, with the arguments."""
    client = (site / "client" / "index.html").read_text(encoding="utf-8")
    constructs = (site / "constructs" / "index.html").read_text(encoding="utf-8")
    assert "Sends signed requests to an embedding endpoint." in client
    assert 'id="embedding_client.errors.VectorSpaceError"' in client
    assert 'id="embedding_kit.endpoint.EmbeddingEndpoint.grant_invoke_url"' in constructs


@pytest.mark.slow
def test_files_outside_of_the_docs_are_links_to_the_repository(site):
    """A page links to them as in the repository; the home is the README."""
    page = (site / "index.html").read_text(encoding="utf-8")
    assert 'src="pictures/benchmark.svg"' in page
    assert re.search(
        r'href="https://[^"]+/embedding-kit/blob/main/\.github/CONTRIBUTING\.md"', page
    )


@pytest.mark.slow
def test_a_page_loads_nothing_from_another_server(site):
    """Fonts, styles and scripts are files of the site."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        loaded = re.findall(
            r'<(?:script|img|iframe)[^>]+src="(https?:[^"]+)"|<link[^>]+rel="stylesheet"[^>]+href="(https?:[^"]+)"',
            page.read_text(encoding="utf-8"),
        )
        assert not loaded, page
