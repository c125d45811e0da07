"""Asks the system for large pages under the memory that holds the model's weights.

ONNX Runtime copies every weight into the layout of this CPU's kernels when a session starts. In
pages of 4 kB that copy is a page fault each, and under a hypervisor the faults cost more than the
copying: 66 of 133 ms for 100 MB. In pages of 2 MB they cost next to nothing. The C library hands
memory out; this module makes it use its heap, and the kernel to back that heap with large
pages. Where either does not know how, nothing happens and the process starts as it always did.
"""

import ctypes

_PAGE = 2 << 20
# From glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3
#: The largest that glibc allows on every version; each weight of a layer is smaller.
_FROM_HEAP = 32 << 20
#: Held together in pieces of this, which come from the heap.
_BLOCK = _FROM_HEAP - _PAGE
#: mallopt takes an int.
_LARGEST = (1 << 31) - 4 * _PAGE
#: From Linux's mman.h.
_MADV_HUGEPAGE = 14


class _MallInfo(ctypes.Structure):
    """glibc's `struct mallinfo2`; `keepcost` is the free space at the heap's end."""

    _fields_ = (("others", ctypes.c_size_t * 9), ("keepcost", ctypes.c_size_t))


def back_heap_with_huge_pages(size: int, *, prefaulted: int = 0) -> bool:
    """Have `size` bytes of free space in the heap, in large pages; say whether the system took it.

    The pages of `prefaulted` bytes, which will all be written to, are allocated now: later, while
    files are read, the same pages take longer. The others are allocated when they are written to.
    """
    try:
        library = ctypes.CDLL(None)
        malloc, free, sbrk = library.malloc, library.free, library.sbrk
        mallopt, mallinfo, madvise = library.mallopt, library.mallinfo2, library.madvise
    except (AttributeError, OSError):  # another C library, or one before glibc 2.33
        return False
    malloc.restype = sbrk.restype = ctypes.c_void_p
    malloc.argtypes, free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
    sbrk.argtypes = [ctypes.c_ssize_t]
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    mallinfo.restype = _MallInfo
    size = min(size, _LARGEST)
    for name, value in (
        (_M_MMAP_THRESHOLD, _FROM_HEAP),
        (_M_TRIM_THRESHOLD, size + 2 * _PAGE),  # or it would give the new space back at once
        (_M_TOP_PAD, size),
    ):
        if not mallopt(name, value):
            return False
    # More than is left of the heap: it must grow, by this and the padding.
    block = malloc(mallinfo().keepcost + _PAGE)
    if block is None:
        return False
    free(block)
    mallopt(_M_TOP_PAD, _PAGE)
    start, end = -(-block // _PAGE) * _PAGE, sbrk(0)
    if end <= start or madvise(start, end - start, _MADV_HUGEPAGE) != 0:
        return False
    # Held while they are written to, so that no other allocation is in them.
    sizes = [min(_BLOCK, prefaulted - start) for start in range(0, prefaulted, _BLOCK)]
    held = [(address, length) for length in sizes if (address := malloc(length)) is not None]
    for address, length in held:
        for page in range(-(-address // _PAGE) * _PAGE, address + length, _PAGE):
            ctypes.memset(page, 0, 1)
    for address, _ in held:
        free(address)
    return True
