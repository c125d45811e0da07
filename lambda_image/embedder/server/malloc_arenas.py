"""Keeps the memory of a long-lived process at what it needs.

glibc gives threads heaps of their own, up to eight for each core. Memory that one thread has freed
is not used for another's allocations, and each heap grows to the most that it ever held: over
100,000 requests from 16 clients the memory grew by 7%, and with one heap by 0.2%. Python's
threads take turns anyway, and a run of the model allocates little, so they hardly wait for each
other.

The heap has huge pages for the weights (`embedder.core.huge_pages`). A request that needs a few
more kilobytes would get 2 MB of them, hours after the start.
"""

import ctypes

__all__ = ["use_one_heap", "use_small_pages"]

#: Of glibc's malloc.h.
_M_ARENA_MAX = -8
#: Of Linux's mman.h.
_MADV_NOHUGEPAGE = 15


def use_one_heap() -> bool:
    """Do so for the threads that start after this; return whether the C library has taken it."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    return bool(mallopt(_M_ARENA_MAX, 1))


def use_small_pages() -> bool:
    """Have the heap's further pages small; its large ones stay. Return whether the kernel took it.

    Call it after the model is loaded.
    """
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            heap = [line.split()[0] for line in maps if line.rstrip().endswith("[heap]")]
        madvise = ctypes.CDLL(None).madvise
    except (AttributeError, OSError):  # another system
        return False
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    ranges = [[int(end, 16) for end in one.split("-")] for one in heap]
    return all(madvise(start, end - start, _MADV_NOHUGEPAGE) == 0 for start, end in ranges)
