"""How many cores this process may use: what a container's quota and its set of cores leave."""

import os
from pathlib import Path

__all__ = ["available_cores"]


def available_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the number of whole cores, at least 1.

    Args:
        cgroup: where the system shows the limits of this process's group, as version 2
            (https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files) or 1.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota = _quota(cgroup)
    return max(1, min(cores or 1, int(quota) if quota else cores or 1))


def _quota(cgroup: Path) -> float | None:
    """Return the cores that the group may use; None without a limit."""
    found = _numbers(cgroup / "cpu.max")
    if not found:
        names = ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")
        found = [number for name in names for number in _numbers(cgroup / name)]
    if len(found) != 2 or found[0] <= 0 or found[1] <= 0:
        return None
    return found[0] / found[1]


def _numbers(path: Path) -> list[int]:
    try:
        words = path.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return []
    # Without a limit, version 2 has the word "max", and version 1 the number -1.
    return [int(word) for word in words if word.isdecimal()]
