"""Only one rehearsal on a machine uses containers at a time."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tools.rehearsal.image.docker import _turn

_HOLDER = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from tools.rehearsal.image.docker import _turn
    with _turn(Path(sys.argv[1])):
        print("holds", flush=True)
        sys.stdin.read()
""")


def _rehearsal(lock: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("killed", [False, True])
def test_a_second_rehearsal_prints_a_message_and_waits(tmp_path, killed):
    """It continues after the first has ended or was killed."""
    lock = tmp_path / "lock"
    with _rehearsal(lock) as first:
        assert first.stdout.readline() == "holds\n"
        with _rehearsal(lock) as second:
            assert "waiting for another rehearsal" in second.stderr.readline()
            if killed:
                first.kill()
            else:
                first.stdin.close()
            assert second.stdout.readline() == "holds\n"
            second.stdin.close()
        assert second.returncode == 0


def test_an_error_releases_the_lock(tmp_path):
    """The next rehearsal does not wait."""
    lock = tmp_path / "lock"
    with pytest.raises(ValueError, match="broken"), _turn(lock):
        raise ValueError("broken")
    with _turn(lock), _rehearsal(lock) as second:
        assert "waiting" in second.stderr.readline()
        second.kill()
