"""The cores that a container leaves to the server."""

import os
from pathlib import Path

import pytest

from embedder.server.cpu_count import available_cores


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("200000 100000", 2), ("150000 100000", 1), ("50000 100000", 1), ("max 100000", 8), ("", 8)],
)
def test_a_quota_of_version_2_counts(tmp_path: Path, quota: str, cores: int) -> None:
    """A part of a core is left out, but one worker always works."""
    (tmp_path / "cpu.max").write_text(quota)
    assert available_cores(tmp_path) == cores


@pytest.mark.parametrize(("quota", "cores"), [("400000", 4), ("-1", 8)])
def test_a_quota_of_version_1_counts(tmp_path: Path, quota: str, cores: int) -> None:
    """A number below zero is no limit."""
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert available_cores(tmp_path) == cores


def test_without_a_group_all_cores_of_the_process_count(tmp_path: Path) -> None:
    """A machine without control groups has no quota."""
    assert available_cores(tmp_path / "none") == 8
