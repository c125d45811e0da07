"""The virtual environment of the emulated AWS, which parallel test processes create together."""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tools.rehearsal.deploy import emulator


def test_processes_that_start_together_create_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first one installs; the others wait until it is complete."""
    steps: list[str] = []

    def run(command: list[str], **_: Any) -> None:
        steps.append(command[1])
        if command[1] == "venv":
            (tmp_path / ".cache" / "ministack").mkdir(exist_ok=True)
        time.sleep(0.1)

    monkeypatch.setattr(emulator, "_ROOT", tmp_path)
    monkeypatch.setattr(subprocess, "run", run)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: emulator.environment_of_ministack(), range(3)))
    assert steps == ["venv", "pip"]
