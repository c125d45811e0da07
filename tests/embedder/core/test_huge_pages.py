"""Large pages for the weights, tested in separate processes because they are never released."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

# The program prints the memory that is used after the heap has grown and been written to.
PROGRAM = """
import ctypes, sys
from embedder.core.huge_pages import back_heap_with_huge_pages
taken = back_heap_with_huge_pages(int(sys.argv[1]))
malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
for _ in range(16):
    ctypes.memset(malloc(1 << 20), 7, 1 << 20)
status = dict(line.split(":") for line in open("/proc/self/status"))
print(taken, status["RssAnon"].split()[0])
"""


def run(program: str, *words: str) -> str:
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("size", [100 << 20, 100 << 30])
def test_asking_takes_no_memory(size):
    """The process uses its 16 MB and little more, regardless of the size requested."""
    taken, anonymous = run(PROGRAM, str(size)).split()
    assert taken in {"True", "False"}
    assert int(anonymous) < 48 << 10


def test_each_call_makes_room_for_what_it_asks_for():
    """A second call for the weights adds room even if the call for the imports left some."""
    program = """
import ctypes
from embedder.core.huge_pages import _MallInfo, back_heap_with_huge_pages
mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = _MallInfo
for size in (16 << 20, 100 << 20):
    taken = back_heap_with_huge_pages(size)
    print(taken, size <= mallinfo().keepcost < size + (4 << 20))
"""
    # False: a kernel without large pages.
    assert run(program) in {"True True\n" * 2, "False True\n" * 2}


def test_what_is_sure_is_there_at_once_and_nothing_is_written_over():
    """Earlier contents of the heap are preserved, wherever the new memory is allocated."""
    program = """
import ctypes
from embedder.core import huge_pages
library = ctypes.CDLL(None)
malloc, free = library.malloc, library.free
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
free.argtypes = [ctypes.c_void_p]
huge_pages.back_heap_with_huge_pages(200 << 20)
blocks = [malloc(5 << 20) for _ in range(20)]
for block in blocks:
    ctypes.memset(block, 7, 5 << 20)
for block in blocks[:10]:  # a hole that the next call may be given
    free(block)
huge_pages.back_heap_with_huge_pages(60 << 20, prefaulted=40 << 20)
print(all(ctypes.string_at(block, 5 << 20) == b"\\7" * (5 << 20) for block in blocks[10:]))
status = dict(line.split(":") for line in open("/proc/self/status"))
print(int(status["RssAnon"].split()[0]) >> 10)
"""
    untouched, megabytes = run(program).split()
    assert untouched == "True"
    assert 88 <= int(megabytes) < 170
