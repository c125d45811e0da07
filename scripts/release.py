"""Prepare a release, check a tag against the repository, and print the notes of a release.

python scripts/release.py prepare 0.2.0    writes the version and the date; scripts/release runs it
python scripts/release.py check v0.2.0     fails if the repository does not have this version
python scripts/release.py notes v0.2.0     prints the version's section of docs/CHANGELOG.md

It needs only Python: the workflow of a release runs it before anything is installed.
"""

import argparse
import datetime as dt
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHANGELOG = "docs/CHANGELOG.md"
#: Both distributions are released together, with one version.
PROJECTS = ("pyproject.toml", "client/pyproject.toml")
#: The repository's address before it is public, and the files that name it.
PLACEHOLDER = "https://github.com/OWNER/embedding-kit"
ADDRESSED = (*PROJECTS, "README.md", "tools/mkdocs.yml")
UNRELEASED = "## Unreleased\n"

_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_HEADING = re.compile(r"^## (?P<version>\S+) - (?P<date>\d{4}-\d{2}-\d{2})$", re.MULTILINE)
#: The version of a distribution.
_STATED = re.compile(r'(^\[project\]\nname = "[^"]+"\nversion = ")([^"]+)(?=")', re.MULTILINE)


class ReleaseError(Exception):
    """The repository is not ready for the release."""


def check(root: Path, tag: str) -> None:
    """Check that a tag, `v` and the version, names the version that the repository has."""
    if not tag.startswith("v"):
        raise ReleaseError(f"the tag must be v and the version, such as v0.2.0; found {tag!r}")
    version = _valid(tag.removeprefix("v"))
    for name in PROJECTS:
        for stated in sorted(
            {version_there for _, version_there in _STATED.findall(_read(root, name))} - {version}
        ):
            raise ReleaseError(f"the tag is {tag}, but {name} has version {stated}")
    for name in ADDRESSED:
        if PLACEHOLDER in _read(root, name):
            raise ReleaseError(
                f"{name} must have the repository's address: write it into Repository of "
                f"pyproject.toml, and run scripts/release {version}; found {PLACEHOLDER}"
            )
    notes(root, tag)


def notes(root: Path, tag: str) -> str:
    """Return the section of a tag's version in the changelog, without its heading."""
    version = tag.removeprefix("v")
    text = _read(root, CHANGELOG)
    heading = next(
        (match for match in _HEADING.finditer(text) if match["version"] == version), None
    )
    if heading is None:
        versions = [match["version"] for match in _HEADING.finditer(text)]
        raise ReleaseError(
            f"{CHANGELOG} has no section '## {version} - DATE'; "
            f"it has {', '.join(versions) or 'no released version'}"
        )
    section = text[heading.end() :].partition("\n## ")[0].strip()
    if not section:
        raise ReleaseError(f"the section of {version} in {CHANGELOG} is empty")
    return f"{section}\n"


def prepare(root: Path, version: str, today: dt.date) -> None:
    """Write the version and the repository's address, and date the unreleased changes.

    The address is `Repository` in the `[project.urls]` of `pyproject.toml`. A second call with the
    same version changes nothing.
    """
    _valid(version)
    text = _read(root, CHANGELOG)
    if all(match["version"] != version for match in _HEADING.finditer(text)):
        before, marker, after = text.partition(UNRELEASED)
        if not marker or not after.partition("\n## ")[0].strip():
            raise ReleaseError(f"{CHANGELOG} has no changes under '{UNRELEASED.strip()}'")
        text = f"{before}{UNRELEASED}\n## {version} - {today.isoformat()}\n{after}"
    address = tomllib.loads(_read(root, "pyproject.toml"))["project"]["urls"]["Repository"]
    texts = {name: _read(root, name).replace(PLACEHOLDER, address) for name in ADDRESSED}
    for name in PROJECTS:
        texts[name] = _STATED.sub(rf"\g<1>{version}", texts[name])
    for name, content in {**texts, CHANGELOG: text}.items():
        (root / name).write_text(content, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("prepare").add_argument("version")
    for name in ("check", "notes"):
        commands.add_parser(name).add_argument("tag")
    options = parser.parse_args(arguments)
    try:
        if options.command == "prepare":
            prepare(ROOT, options.version, dt.datetime.now(dt.UTC).date())
        elif options.command == "check":
            check(ROOT, options.tag)
        else:
            sys.stdout.write(notes(ROOT, options.tag))
    except ReleaseError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _valid(version: str) -> str:
    if not _VERSION.fullmatch(version):
        raise ReleaseError(
            f"a version is three numbers, such as 0.2.0 or 0.2.0rc1; found {version!r}"
        )
    return version


def _read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
