"""Packages at a version: what is downloaded is whole, or is downloaded again."""

import hashlib
import os
import subprocess

import pytest

from tools.pinned_package import PinnedPackage, downloaded

PACKAGE = PinnedPackage("a", "1", hashlib.sha256(b"whole").hexdigest())


def test_a_cut_or_another_file_is_downloaded_again(tmp_path, monkeypatch):
    """What an interrupted download leaves is no file of the cache, nor is one of another hash."""
    program = tmp_path / "bin" / "apt-get"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    def download(script: str) -> bytes:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return downloaded(PACKAGE, tmp_path / "cache").read_bytes()

    with pytest.raises(subprocess.CalledProcessError):
        download("printf who >a_1.deb.partial; exit 1")
    with pytest.raises(ValueError, match=f"must have the SHA-256 {PACKAGE.sha256}; found 2d711642"):
        download("printf x >a_1.deb")
    assert download("printf whole >a_1.deb") == b"whole"
    assert download("exit 1") == b"whole"  # it is in the cache
