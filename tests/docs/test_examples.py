"""The examples of the documentation run, and its generated parts are up to date."""

import os
import re
import runpy
from pathlib import Path

import pytest

from tools.local_endpoint.endpoint import endpoint

from . import pages
from .pages import (
    BATCH,
    BLOCK,
    FINETUNE,
    NEEDS_CURL,
    PAGES,
    PYTHON,
    RECIPES,
    RERANK,
    ROOT,
    SEARCH,
    SERVED,
    SKILL,
    blocks,
    prints,
)

README = ROOT / "README.md"
#: Other tests run their examples.
ELSEWHERE = (FINETUNE, RECIPES, RERANK, SEARCH, SKILL)
generate = runpy.run_path(str(ROOT / "docs" / "generate.py"))


@pytest.fixture(scope="module")
def url(minilm_artifact):
    """Serve the model of `scripts/serve` at another port."""
    with pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
            environment.delenv(name, raising=False)
        running, _ = endpoint(minilm_artifact.folder)
        with running:
            yield running.url


def pages_with(language):
    return [
        pytest.param(
            page,
            id=page.relative_to(ROOT).as_posix(),
            marks=[pytest.mark.slow] * _is_slow(page, language)
            + [NEEDS_CURL] * any(block.startswith("curl ") for block in examples(page, language)),
        )
        for page in PAGES
        if examples(page, language)
        and page not in (*ELSEWHERE, *([BATCH] if language == "python" else []))
    ]


def _is_slow(page, language):
    """Each starts the CDK, or many commands; of the CDK, the README's is enough for every run."""
    starts = "aws_cdk" in "".join(examples(page, language))
    return page != README and (starts or (page.name, language) == ("client.md", "bash"))


def examples(page, language):
    return blocks(page.read_text(encoding="utf-8"), language)


@pytest.fixture
def run(url, tmp_path, minilm_artifact):
    """Run a program in a folder with a compiled model; its requests go to the served one."""
    (tmp_path / "artifact").symlink_to(minilm_artifact.folder)
    (tmp_path / ".curlrc").write_text("fail\nsilent\nshow-error\n")
    variables = {
        "CURL_HOME": str(tmp_path),
        # Where jsii has unpacked the CDK: in a new home, that would take ten seconds.
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(Path.home() / ".cache/aws/jsii/package-cache"),
    }
    return lambda start, code: pages.run([*start, code.replace(SERVED, url)], tmp_path, **variables)


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_examples_run(page, run):
    """The Python examples of a page run in one process, in order, and print what it shows."""
    printed = run(PYTHON, "\n".join(examples(page, "python")))
    for one in BLOCK.finditer(page.read_text(encoding="utf-8")):
        assert one["language"] != "python" or one["reason"] or prints(one, printed), one["output"]


@pytest.mark.parametrize("name", generate["GENERATED"])
def test_generated_files_are_up_to_date(name):
    """`python docs/generate.py` writes them."""
    assert (ROOT / name).read_text(encoding="utf-8") == generate["GENERATED"][name]()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_are_valid(page):
    """Each file exists."""
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [
        link
        for link in links
        if not link.startswith(("http://", "https://")) and not (page.parent / link).exists()
    ]
    assert not missing


def test_modules_on_the_pages_exist():
    """Each `folder/name.py` is the end of a path in the repository; `FAMILY.py` is the reader's."""
    found = ("/" + str(path.relative_to(ROOT)) for path in ROOT.glob("*/**/*.py"))
    paths = [path for path in found if not path.startswith("/.")]
    named = {
        name
        for page in PAGES
        for name in re.findall(r"`([a-z_./]+/[a-z_0-9]+\.py)`", page.read_text("utf-8"))
    }
    assert named
    missing = [name for name in named if not any(path.endswith("/" + name) for path in paths)]
    assert not missing


def test_scripts_on_the_pages_exist():
    """Each `scripts/…` is an executable file."""
    named = {
        name
        for page in PAGES
        for name in re.findall(r"scripts/([a-z-]+)\b(?!_)", page.read_text("utf-8"))
    }
    assert named
    assert not [name for name in sorted(named) if not os.access(ROOT / "scripts" / name, os.X_OK)]
