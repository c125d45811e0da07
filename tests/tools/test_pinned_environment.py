"""Environments of pinned packages, which parallel test processes create together."""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tools import pinned_environment


class Uv:
    """In place of uv: notes each step; `fails` is a step that fails."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.fails = ""

    def __call__(self, command: list[Any], **_: Any) -> None:
        """Note a step, and fail or take a moment."""
        step = command[3]
        self.steps.append(step)
        if step == self.fails:
            raise subprocess.CalledProcessError(1, "uv")
        if step == "venv":
            command[-1].mkdir(exist_ok=True)
        time.sleep(0.1)


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Uv:
    monkeypatch.setattr(pinned_environment, "CACHE", tmp_path / ".cache")
    double = Uv()
    monkeypatch.setattr(subprocess, "run", double)
    return double


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    file = tmp_path / "pins.txt"
    file.write_text("one==1")
    return file


def test_processes_that_start_together_create_it_once(uv: Uv, pins: Path) -> None:
    """Only the first one installs; the others wait until it is complete."""
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: pinned_environment.pinned_environment("it", pins), range(3)))
    assert uv.steps == ["venv", "pip"]


def test_an_installation_that_failed_begins_again(uv: Uv, pins: Path) -> None:
    """Nothing takes half an environment for a whole one."""
    uv.fails = "pip"
    with pytest.raises(subprocess.CalledProcessError):
        pinned_environment.pinned_environment("it", pins)
    uv.fails = ""
    pinned_environment.pinned_environment("it", pins)
    assert uv.steps == ["venv", "pip", "venv", "pip"]
