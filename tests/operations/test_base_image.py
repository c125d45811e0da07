"""`scripts/build --refresh-base` pins the digest of now, and prints the old and the new one."""

import subprocess
from pathlib import Path

import pytest

from operations import base_image

TAG = "public.ecr.aws/lambda/python:3.13-arm64"
OLD, NEW = (f"sha256:{character * 64}" for character in "ab")
WRITTEN = '# A comment.\n[model]\nname = "any/model" # another\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of environments, beside a script that prints the new digest of a tag."""
    monkeypatch.setattr(base_image, "_ROOT", tmp_path)
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "base-image"
    script.write_text(f'#!/bin/sh\necho "base_image = \\"${{1:-{TAG}}}@{NEW}\\""\n')
    script.chmod(0o755)
    (tmp_path / "environments").mkdir()
    return tmp_path / "environments"


@pytest.mark.parametrize(
    ("before", "after", "printed"),
    [
        ("", f'base_image = "{TAG}@{NEW}"\n', f"dev: not pinned -> {NEW}\n"),
        (
            f'base_image = "{TAG}@{OLD}"\n',
            f'base_image = "{TAG}@{NEW}"\n',
            f"dev: {OLD} -> {NEW}\n",
        ),
        (
            f'base_image = "mirror.example/python:1@{OLD}"\n',
            f'base_image = "mirror.example/python:1@{NEW}"\n',
            f"dev: {OLD} -> {NEW}\n",
        ),
        (
            f'base_image = "{TAG}@{NEW}"\n',
            f'base_image = "{TAG}@{NEW}"\n',
            f"dev: {NEW} -> unchanged\n",
        ),
    ],
    ids=["first", "newer", "mirror", "same"],
)
def test_the_digest_of_now_is_pinned(folder: Path, capsys, before, after, printed):
    """Comments stay, and so does the address of a mirror."""
    (folder / "dev.toml").write_text(WRITTEN + before)
    assert base_image.main(["dev"]) == 0
    assert capsys.readouterr().out == printed
    assert (folder / "dev.toml").read_text() == WRITTEN + after


def test_an_unknown_environment_changes_none(folder, capsys):
    """All names are checked first."""
    (folder / "dev.toml").write_text(WRITTEN)
    assert base_image.main(["dev", "nowhere"]) == 1
    assert capsys.readouterr().err == "error: there is no environment 'nowhere'; allowed: dev\n"
    assert (folder / "dev.toml").read_text() == WRITTEN


def test_without_a_digest_nothing_is_written(folder, capsys):
    """The error is the script's own."""
    (folder / "dev.toml").write_text(WRITTEN)
    script = folder.parent / "scripts" / "base-image"
    script.write_text("#!/bin/sh\necho 'error: no digest' >&2\nexit 1\n")
    with pytest.raises(subprocess.CalledProcessError):
        base_image.pin(folder / "dev.toml")
    assert base_image.main(["dev"]) == 1
    assert capsys.readouterr().err == "error: no digest\n"
    assert (folder / "dev.toml").read_text() == WRITTEN
