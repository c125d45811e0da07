"""Debian's packages: who can install them, and a program that fails."""

import os

import pytest

from tools.debian import DebianError, install, run


def test_only_root_installs(monkeypatch):
    """The message names the programs."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(DebianError, match=r"^cc, mmdebstrap: to install them, this needs root and"):
        install("cc", "mmdebstrap")


def test_a_program_that_fails_shows_its_last_errors():
    """Its output is returned, if it does not fail."""
    assert run("sh", "-c", "echo right; echo wrong >&2") == "right\n"
    with pytest.raises(DebianError, match=r"^sh -c echo wrong >&2; exit 3: wrong$"):
        run("sh", "-c", "echo wrong >&2; exit 3")
