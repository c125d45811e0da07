"""Only one rehearsal on a machine uses containers at a time."""

import subprocess
import sys
from pathlib import Path

import pytest

_HOLDER = """
import sys
from pathlib import Path
from tools.rehearsal.image.docker import _turn
with _turn(Path(sys.argv[1])):
    print("holds", flush=True)
    sys.stdin.read()
"""


def _rehearsal(lock: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("killed", [False, True])
def test_a_second_rehearsal_prints_a_message_and_waits(tmp_path, killed):
    """It continues after the first has ended or was killed."""
    lock = tmp_path / "lock"
    with _rehearsal(lock) as first:
        assert first.stdout.readline() == "holds\n"
        with _rehearsal(lock) as second:
            assert "waiting for another rehearsal" in second.stdout.readline()
            if killed:
                first.kill()
            else:
                first.stdin.close()
            assert second.stdout.readline() == "holds\n"
            second.stdin.close()
        assert second.returncode == 0
