"""scripts/release.py prepares a release, checks a tag, and cuts the notes out of the changelog."""

import datetime as dt
import importlib.util
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TODAY = dt.date(2027, 1, 31)
CHANGELOG = """\
# Changelog

Text.

## Unreleased

### Added

- A change.

## 0.2.0 - 2027-01-15

### Fixed

- A fix, which `## is no heading` of.

## 0.1.0 - 2027-01-01

- The first one.
"""


def _load():
    spec = importlib.util.spec_from_file_location("release", ROOT / "scripts" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = _load()


@pytest.fixture
def repository(tmp_path):
    """Copy the projects of this repository, with a changelog and an address."""
    for name in release.ADDRESSED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text = (ROOT / name).read_text().replace("/OWNER/", "/example/")
        (tmp_path / name).write_text(text)
    (tmp_path / "docs").mkdir(exist_ok=True)
    (tmp_path / "docs" / "CHANGELOG.md").write_text(CHANGELOG)
    return tmp_path


def contents(root):
    return {path: path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_prepared_release_passes_the_check_of_its_tag(repository):
    """Both get the version, the notes are the unreleased changes, and a second call is no other."""
    release.prepare(repository, "1.2.3", TODAY)
    release.check(repository, "v1.2.3")
    before = contents(repository)
    release.prepare(repository, "1.2.3", TODAY + dt.timedelta(days=1))
    assert contents(repository) == before
    assert release.notes(repository, "v0.2.0").splitlines()[-1].startswith("- A fix")
    assert release.notes(repository, "v1.2.3") == "### Added\n\n- A change.\n"
    text = (repository / "docs" / "CHANGELOG.md").read_text()
    assert "## Unreleased\n\n## 1.2.3 - 2027-01-31\n\n### Added" in text
    for name in release.PROJECTS:
        project = tomllib.loads((repository / name).read_text())["project"]
        assert project["version"] == "1.2.3"


def test_a_prepared_release_changes_nothing_else(repository):
    """Only the lines of the version differ: not those of a dependency with that name as its key."""
    before = {name: (repository / name).read_text().splitlines() for name in release.PROJECTS}
    release.prepare(repository, "1.2.3", TODAY)
    for name in release.PROJECTS:
        after = (repository / name).read_text().splitlines()
        changed = [
            line
            for line_before, line in zip(before[name], after, strict=True)
            if line_before != line
        ]
        assert changed == ['version = "1.2.3"']


@pytest.mark.parametrize("version", ["1.2", "v1.2.3", "1.2.3-rc1", "1.2.3; ls", ""])
def test_a_version_is_three_numbers(repository, version):
    """Nothing is written for another text."""
    before = contents(repository)
    with pytest.raises(release.ReleaseError, match=r"three numbers, such as 0\.2\.0"):
        release.prepare(repository, version, TODAY)
    assert contents(repository) == before


def test_a_release_needs_changes(repository):
    """An empty list of changes is not released."""
    release.prepare(repository, "1.2.3", TODAY)
    before = contents(repository)
    with pytest.raises(release.ReleaseError, match="no changes under '## Unreleased'"):
        release.prepare(repository, "1.2.4", TODAY)
    assert contents(repository) == before


@pytest.mark.parametrize(
    ("tag", "edit", "message"),
    [
        ("1.2.3", None, "the tag must be v and the version"),
        ("v1.2", None, "three numbers"),
        ("v9.9.9", None, "the tag is v9.9.9, but pyproject.toml has version 1.2.3"),
        (
            "v1.2.3",
            ("client/pyproject.toml", 'version = "1.2.3"', 'version = "1.2.2"'),
            r"client/pyproject.toml has version 1\.2\.2",
        ),
        # The pages of the package index and the README's first command would lead to nowhere.
        *(
            ("v1.2.3", (name, "/example/", "/OWNER/"), f"{name} must have the repository's address")
            for name in release.ADDRESSED
        ),
    ],
)
def test_a_repository_that_is_not_that_of_its_tag_is_refused(repository, tag, edit, message):
    """Both packages of a release have the version of its tag, and the repository's address."""
    release.prepare(repository, "1.2.3", TODAY)
    if edit:
        path = repository / edit[0]
        path.write_text(path.read_text().replace(*edit[1:]))
    with pytest.raises(release.ReleaseError, match=message):
        release.check(repository, tag)


def test_a_release_fills_the_address_everywhere(repository):
    """`Repository` of pyproject.toml is written in one place, and stands in every file after."""
    for name in release.ADDRESSED:
        (repository / name).write_text((ROOT / name).read_text())
    path = repository / "pyproject.toml"
    line = 'Repository = "https://github.com/{}/embedding-kit"'
    path.write_text(path.read_text().replace(line.format("OWNER"), line.format("acme")))
    release.prepare(repository, "1.2.3", TODAY)
    release.check(repository, "v1.2.3")
    text = (repository / "README.md").read_text()
    assert "git clone https://github.com/acme/embedding-kit && cd embedding-kit" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# Changelog\n\n## Unreleased\n", "has no section '## 1.2.3 - DATE'; it has no released"),
        ("## 1.2.3\n\n- A change.\n\n## 0.1.0 - 2027-01-01\n", "no section .* it has 0.1.0"),
        ("## 1.2.3 - 2027-01-31\n\n## 0.1.0 - 2027-01-01\n- A.\n", "section of 1.2.3 .* is empty"),
    ],
)
def test_a_version_without_notes_is_refused(repository, text, message):
    """A release says what it changes."""
    release.prepare(repository, "1.2.3", TODAY)
    (repository / "docs" / "CHANGELOG.md").write_text(text)
    with pytest.raises(release.ReleaseError, match=message):
        release.check(repository, "v1.2.3")


def test_the_command_prints_notes_and_errors(repository, monkeypatch, capsys):
    """The notes go to standard output; an error is one line and exit status 1."""
    monkeypatch.setattr(release, "ROOT", repository)
    assert release.main(["notes", "v0.1.0"]) == 0
    assert capsys.readouterr() == ("- The first one.\n", "")
    assert release.main(["check", "v0.1.9"]) == 1
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.startswith("error: the tag is v0.1.9, but pyproject.toml has version")
    assert release.main(["prepare", "3.0.0"]) == 0
    assert release.main(["check", "v3.0.0"]) == 0


def test_the_projects_are_those_of_the_workspace():
    """A distribution that is added is also versioned."""
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["workspace"]
    projects = {"pyproject.toml", *(f"{member}/pyproject.toml" for member in workspace["members"])}
    assert projects == set(release.PROJECTS)
