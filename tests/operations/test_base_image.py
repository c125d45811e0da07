"""`scripts/base-image` pins the digest of now, and prints the old and the new one."""

import os
import shlex

import pytest

from operations import base_image

VERSION = (base_image._ROOT / "lambda_image" / ".python-version").read_text().strip()
TAG = f"public.ecr.aws/lambda/python:{VERSION}-arm64"
DIGEST_BEFORE, DIGEST_NOW = (f"sha256:{character * 64}" for character in "ab")
WRITTEN = '# A comment.\n[model]\nname = "any/model" # another\n'


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """Return a function that replaces Docker by a program that prints a text."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def prints(text: str, status: int = 0) -> None:
        program = tmp_path / "docker"
        program.write_text(
            f'#!/bin/sh\necho "$@" >{shlex.quote(str(tmp_path))}/asked\necho {shlex.quote(text)}\n'
            f"echo no such image >&2\nexit {status}\n"
        )
        program.chmod(0o755)

    return prints


@pytest.fixture
def folder(tmp_path, monkeypatch, docker):
    """Return the folder of environments; Docker knows the new digest."""
    docker(f'"{DIGEST_NOW}"')
    (tmp_path / "environments").mkdir()
    monkeypatch.setattr(base_image, "_ROOT", tmp_path)
    return tmp_path / "environments"


def test_the_tag_is_that_of_the_dockerfile():
    """An image without a pin is built from the same tag."""
    text = (base_image._ROOT / "lambda_image" / "Dockerfile").read_text()
    assert f"\nARG BASE_IMAGE={base_image._TAG}\n" in text


MIRROR = "mirror.example/lambda/python"


@pytest.mark.parametrize(
    ("before", "tag", "printed"),
    [
        (None, TAG, f"not pinned -> {DIGEST_NOW}"),
        (f"{TAG}@{DIGEST_BEFORE}", TAG, f"{DIGEST_BEFORE} -> {DIGEST_NOW}"),
        (
            "mirror.example/python:1.4@" + DIGEST_BEFORE,
            "mirror.example/python:1.4",
            f"{DIGEST_BEFORE} -> {DIGEST_NOW}",
        ),
        (
            f"{MIRROR}:3.9.2026-arm64@{DIGEST_BEFORE}",
            f"{MIRROR}:3.9.2026-arm64",
            f"{DIGEST_BEFORE} -> {DIGEST_NOW}",
        ),
        (
            f"{MIRROR}:3.9-arm64@{DIGEST_BEFORE}",
            f"{MIRROR}:{VERSION}-arm64",
            f"{DIGEST_BEFORE} -> {DIGEST_NOW}",
        ),
        (f"{TAG}@{DIGEST_NOW}", TAG, f"{DIGEST_NOW} -> unchanged"),
    ],
    ids=["first", "newer", "a mirror's own version", "a date", "another Python", "same"],
)
def test_the_digest_of_now_is_pinned(folder, capsys, before, tag, printed):
    """Comments stay, and so does the address of a mirror."""
    (folder / "dev.toml").write_text(WRITTEN + (f'base_image = "{before}"\n' if before else ""))
    assert base_image.main(["dev"]) == 0
    assert capsys.readouterr().out == f"dev: {printed}\n"
    assert (folder / "dev.toml").read_text() == f'{WRITTEN}base_image = "{tag}@{DIGEST_NOW}"\n'
    commands = (folder.parent / "asked").read_text()
    assert commands == f"buildx imagetools inspect {tag} --format {{{{json .Manifest.Digest}}}}\n"


def test_a_second_model_is_pinned_too(folder, capsys):
    """It has an image, and after an exchange of the two it answers."""
    standby = '[standby]\nname = "another/model"\n'
    (folder / "dev.toml").write_text(WRITTEN + standby)
    assert base_image.main(["dev"]) == 0
    printed = f"dev: not pinned -> {DIGEST_NOW}\ndev, [standby]: not pinned -> {DIGEST_NOW}\n"
    assert capsys.readouterr().out == printed
    line = f'base_image = "{TAG}@{DIGEST_NOW}"\n'
    assert (folder / "dev.toml").read_text() == WRITTEN + line + standby + line


def test_an_unknown_environment_changes_none(folder, capsys):
    """All names are checked first."""
    (folder / "dev.toml").write_text(WRITTEN)
    assert base_image.main(["dev", "nowhere"]) == 1
    assert capsys.readouterr().err == "error: there is no environment 'nowhere'; allowed: dev\n"
    assert (folder / "dev.toml").read_text() == WRITTEN


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (("Name: python", 0), "printed no digest; found: Name: python; allowed: sha256:...\n"),
        (("", 0), "printed no digest; found: nothing; allowed: sha256:...\n"),
        (("", 1), "no such image\n"),
    ],
)
def test_without_a_digest_nothing_is_written(folder, docker, capsys, answer, error):
    """Neither what is no digest, nor an error of Docker."""
    docker(*answer)
    (folder / "dev.toml").write_text(WRITTEN)
    assert base_image.main(["dev"]) == 1
    assert capsys.readouterr().err.endswith(error)
    assert (folder / "dev.toml").read_text() == WRITTEN
