"""The machine of a run."""

import platform
from pathlib import Path

__all__ = ["cpu_name"]


def cpu_name() -> str:
    """Return the name of the CPU's model, or else of its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
