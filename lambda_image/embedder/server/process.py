"""The resources of the server's process: its cores, and memory that stays at what it needs.

glibc gives threads separate heaps, up to eight for each core. Memory that one thread has freed
is not used for another's allocations, and each heap grows to the most that it ever held: over
100,000 requests from 16 clients the memory grew by 7%, and with one heap by 0.2%. Python's
threads take turns anyway, and a run of the model allocates little, so they hardly wait for each
other.

While the weights are loaded, the heap has huge pages and takes blocks of up to 32 MB
(`embedder.core.huge_pages`). Later, a request that needs a few more kilobytes would get 2 MB, and
small blocks would fill the holes that bodies and answers of lists leave. Next to lists of a
thousand texts, 41 of the heap's 119 MB were free; with large blocks outside of it, 16 of 77 are.
"""

import ctypes
import os
from pathlib import Path

#: Options in glibc's malloc.h.
_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3
#: Bytes of a block for which the heap does not grow: the system gets it back when it is freed.
#: Answers to lists are larger. What an operator needs for a run, at most 1 MB, is smaller: 0.4 MB
#: of new pages take 0.15 ms, and of the heap 0.002.
_LARGE_BLOCK = 5 << 18
#: The option in Linux's prctl.h: no more huge pages for this process.
_PR_SET_THP_DISABLE = 41


def available_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return how many whole cores a container's quota and its set of cores leave, at least 1.

    The quota is in the folder `cgroup`:
    https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files
    """
    on_linux = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if on_linux else os.cpu_count() or 1
    try:
        quota, period = (cgroup / "cpu.max").read_text(encoding="ascii").split()
        cores = min(cores, int(quota) // int(period))
    except (OSError, ValueError):
        pass  # There is no file, or no limit: the word "max" is in the place of the quota.
    return max(1, cores)


def use_one_heap() -> bool:
    """Use one malloc arena for the threads that start later. Return whether glibc accepted."""
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1))
    except AttributeError:  # another C library
        return False


def keep_heap_small() -> bool:
    """Use no more huge pages, and no heap for large blocks. Return whether the system accepted.

    Call it after the model is loaded: its pages stay.
    """
    try:
        library = ctypes.CDLL(None)
        has_small_pages = library.prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0
        return bool(library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)) and has_small_pages
    except AttributeError:  # another system or C library
        return False
