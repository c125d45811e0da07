"""The commands of each page run in a fresh clone, in their order, without credentials of AWS.

Those that need an account may fail only for the lack of credentials, and must say so.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from markdown_it import MarkdownIt

from tools.local_endpoint.endpoint import endpoint
from tools.rehearsal.deploy.cdk import copy_files

from .pages import BLOCK, PAGES, ROOT, SERVED, SKILL, prints
from .test_examples import ELSEWHERE

#: The environments that the pages are about: those of `environments/` are the user's to edit.
SHIPPED = ROOT / "tests" / "fixtures" / "environments"
#: Where a reader begins: nothing has been set up.
FIRST = {ROOT / "README.md", ROOT / "docs/operations.md", SKILL}
#: What says that there are no credentials: botocore, the AWS CLI, the CDK, the client.
LACK = re.compile(
    r"Unable to locate credentials|Unable to resolve AWS account to use"
    r"|no valid credentials|No AWS credentials"
)
_STANDBY = '\n[standby]\nname = "BAAI/bge-small-en-v1.5"\n\n[index]\n'
_MIGRATION = {
    "environments/dev.toml": (SHIPPED / "dev.toml").read_text("utf-8") + _STANDBY,
    "queries.txt": "a text\n",
}
#: What a page leaves to the reader.
TYPED = {"https://<id>.lambda-url.<region>.on.aws": "https://abc.lambda-url.us-east-1.on.aws"}
FILES = {
    "README.md": {"notes.csv": "id,body\n1,a note\n"},
    "docs/migrate.md": {**_MIGRATION, "texts.jsonl": '{"text": "a text"}\n'},
    "docs/search.md": {"handbook/kettle.md": "# Kettle\n\nDescale it.\n"},
    str(SKILL.relative_to(ROOT)): _MIGRATION,
}
VARIABLES = {
    "EMBEDDING_INDEX_ARN": "arn:aws:s3vectors:us-east-1:111122223333:bucket/b/index/i",
    "EMBEDDING_URL": "https://abc.lambda-url.us-east-1.on.aws",
    "FUNCTION": "EmbeddingKit-dev-Endpoint",
    "INDEX_ARN": "arn:aws:s3vectors:us-east-1:111122223333:bucket/b/index/i",
    "NEW_URL": "https://abc.lambda-url.us-east-1.on.aws",
    "URL": "https://abc.lambda-url.us-east-1.on.aws",
}
AWS_CLI = "awscli==1.45.11"
#: Writes the status of a command and the next command, before that one runs.
TRACE = 'trap \'printf "\\n@@ %s %s\\n" "$?" "$BASH_COMMAND"\' DEBUG\n'


class Block(NamedTuple):
    """Commands of a page."""

    code: str
    needs_aws: bool
    match: re.Match[str]


def commands(page: Path) -> list[Block]:
    """Return a page's blocks of commands that run, in their order."""
    found = [one for one in BLOCK.finditer(page.read_text("utf-8")) if one["language"] == "bash"]
    if page == SKILL:
        # It is collected from other pages, without their marks.
        marks = {one["code"]: one for other in PAGES if other != SKILL for one in _marked(other)}
        found = [marks[one["code"]] for one in found]
    return [
        Block(
            re.sub(f"^{one['indent']}", "", one["code"], flags=re.MULTILINE), bool(one["aws"]), one
        )
        for one in found
        if not one["reason"] and (one["aws"] or page not in ELSEWHERE or page == SKILL)
    ]


def _marked(page: Path) -> Iterator[re.Match[str]]:
    return BLOCK.finditer(page.read_text("utf-8"))


@pytest.fixture(scope="module")
def url(minilm_artifact) -> Iterator[str]:
    """Serve the model of `scripts/serve` at another port."""
    running, _ = endpoint(minilm_artifact.folder)
    with running:
        yield running.url


def environment(clone: Path, home: Path) -> dict[str, str]:
    """Return the variables of a shell with no profile, and with the caches of the packages."""
    bin_folder = home / "bin"
    bin_folder.mkdir(parents=True)
    uv = Path(sys.executable).with_name("uv")
    (bin_folder / "aws").write_text(
        f'#!/bin/sh\nexec {shlex.quote(str(uv))} tool run --quiet --from {AWS_CLI} aws "$@"\n'
    )
    (bin_folder / "aws").chmod(0o755)
    (home / ".curlrc").write_text("fail\nsilent\nshow-error\n")
    cache = Path.home() / ".cache"
    path = [str(clone / ".venv" / "bin"), str(bin_folder), "/usr/local/bin", "/usr/bin", "/bin"]
    return {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "HOME": str(home),
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(cache / "aws/jsii/package-cache"),
        "LANG": "C.UTF-8",
        "PATH": os.pathsep.join(path),
        "PYTHON": sys.executable,
        "NODE_USE_SYSTEM_CA": "1",
        "UV_SYSTEM_CERTS": "1",
        "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(cache / "uv")),
        "NPM_CONFIG_CACHE": os.environ.get("NPM_CONFIG_CACHE", str(Path.home() / ".npm")),
        **VARIABLES,
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [pytest.param(one, id=str(one.relative_to(ROOT))) for one in PAGES if commands(one)]
)
def test_the_commands_of_a_page_run(page, tmp_path, url, minilm_artifact):
    """Each block in a new shell; those that need AWS end with the message of what is missing."""
    # With what is not committed yet. A link to .venv would let a page change this checkout's.
    clone = tmp_path / "embedding-kit"
    copy_files(ROOT, clone)
    shutil.copytree(SHIPPED, clone / "environments", dirs_exist_ok=True)
    variables = environment(clone, tmp_path / "home")
    (clone / "artifact").symlink_to(minilm_artifact.folder)
    for name, text in FILES.get(str(page.relative_to(ROOT)), {}).items():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text(text)
    if page not in FIRST:
        assert shell("scripts/setup", clone, variables)[0] == 0
    for block in commands(page):
        code = block.code.replace(SERVED, url)
        for typed, value in TYPED.items():
            code = code.replace(typed, value)
        if block.needs_aws:
            fails_for_lack(code, clone, variables)
        else:
            status, printed = shell("set -euo pipefail\n" + code, clone, variables)
            assert status == 0, printed
            assert printed
            assert prints(block.match, printed), printed


def shell(code: str, folder: Path, variables: Mapping[str, str]) -> tuple[int, str]:
    """Run commands, and return their status and what they print."""
    ran = subprocess.run(
        ["bash", "-c", code],
        cwd=folder,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
    return ran.returncode, ran.stdout


def fails_for_lack(code: str, folder: Path, variables: Mapping[str, str]) -> None:
    """Fail if a command fails otherwise, or if none misses credentials."""
    _, printed = shell(f"set -u\n{TRACE}{code}\n:\n", folder, variables)
    parts = re.split(r"^@@ (\d+) (.*)\n", printed, flags=re.MULTILINE)[1:]
    ran = zip(parts[1::3], parts[2::3], parts[3::3], strict=False)
    lacks = False
    for command, said, status in ran:
        lack = bool(LACK.search(said))
        assert status == "0" or lack, f"{command}\n{said}"
        lacks |= lack
        if lack and status == "0":
            # A variable has no value: the commands after it cannot run.
            break
    assert lacks, printed


def test_the_app_says_what_is_missing(tmp_path):
    """The CDK's command starts it in a clone in which nothing has been set up."""
    app = json.loads((ROOT / "cdk.json").read_text())["app"]
    assert shell(app, tmp_path, {}) == (1, "error: there is no .venv; run scripts/setup first\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_example_has_a_language(page):
    """So that no command is missed: not even one that is only indented."""
    tokens = MarkdownIt("commonmark").parse(page.read_text("utf-8"))
    assert not [one.content for one in tokens if one.type == "code_block"]
    assert not [one.content for one in tokens if one.type == "fence" and not one.info]
    fences = [one for one in tokens if one.type == "fence"]
    assert len(fences) == len(list(BLOCK.finditer(page.read_text("utf-8"))))
