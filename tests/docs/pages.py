"""The pages of the documentation and the examples on them."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: The URL of the pages' examples.
SERVED = "http://127.0.0.1:9000"
#: Those of a package are its description in the package index.
OF_PACKAGES = [ROOT / "client" / "README.md", ROOT / "constructs" / "README.md"]
_OF_ROOT = [ROOT / name for name in ("README.md", ".github/CONTRIBUTING.md", ".github/SECURITY.md")]
_DOCS = [path for path in (ROOT / "docs").rglob("*.md") if "handbook" not in path.parts]
PAGES = sorted([*_OF_ROOT, *OF_PACKAGES, *_DOCS])
#: Pages with examples for other environments, in which tests/recipes runs them.
RECIPES = ROOT / "docs" / "recipes.md"
#: Its commands run everywhere.
BATCH = ROOT / "docs" / "batch.md"
#: tests/docs/test_finetune_page.py runs it, with a model of its own.
FINETUNE = ROOT / "docs" / "models.md"
#: tests/embedding_client/test_rerank.py and test_sparse.py run it, with models of both kinds.
RERANK = ROOT / "docs" / "rerank.md"
#: tests/embedding_client/test_search.py runs it, with several models and an index.
SEARCH = ROOT / "docs" / "search.md"
#: tests/docs/test_commands.py and the rehearsal run it.
SKILL = ROOT / "docs" / "skills" / "embedding-kit" / "SKILL.md"
BLOCK = re.compile(
    r"^(?P<indent> *)(?:<!-- (?:not run: (?P<reason>[^>]+)|(?P<aws>needs AWS)) -->\n(?P=indent))?"
    r"```(?P<language>\w*)\n(?P<code>.*?)^(?P=indent)```$"
    # Text right below it is what it prints.
    r"(?:(?=\n\n```text\n(?P<output>.*?)^```$))?",
    re.DOTALL | re.MULTILINE,
)


def blocks(text: str, language: str) -> list[str]:
    """Return the examples of a page, without those that cannot run or need AWS."""
    return [
        one["code"]
        for one in BLOCK.finditer(text)
        if one["language"] == language and not one["reason"] and not one["aws"]
    ]


def prints(block: "re.Match[str]", printed: str) -> bool:
    """Return whether a program has printed what the page shows, in which `…` is anything."""
    shown = re.escape((block["output"] or "").rstrip()).replace("…", ".*")
    return re.search(shown, printed, re.DOTALL) is not None


def run_examples(page: Path, section: str, url: str, folder: Path) -> list[str]:
    """Run the examples of a page's section in a folder, and return what each program prints.

    The Python examples are one program, and the commands are another. They send requests to
    `url` in place of the page's URL.
    """
    programs: list[tuple[str, ...]] = [(*PYTHON, sections(page, "python")[section])]
    if commands := sections(page, "bash").get(section):
        programs.append((*BASH, commands))
    return [run([*start, code.replace(SERVED, url)], folder) for *start, code in programs]


#: README asks for Python and bash alone.
NEEDS_CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
#: Warnings are errors, but for one of other libraries with Python 3.14; see pyproject.toml.
STRICT = ("-W", "error", "-W", "ignore:'asyncio.iscoroutinefunction' is deprecated")
#: A program or commands follow.
PYTHON, BASH = (sys.executable, *STRICT, "-c"), ("bash", "-euo", "pipefail", "-c")


def run(command: Sequence[str], folder: Path, **variables: str) -> str:
    """Run a command in a folder, with the programs of the environment; return what it prints."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def sections(page: Path, language: str, *, level: int = 2) -> dict[str, str]:
    """Return the examples of each section of a page by its title, joined by line breaks."""
    section = rf"^#{{{level}}} (.+?)\n(.*?)(?=^#{{2,{level}}} |\Z)"
    found = re.findall(section, page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return {
        title: "\n".join(examples) for title, text in found if (examples := blocks(text, language))
    }
