"""The cores and the heap that the server's process uses."""

import os
import re
import subprocess
import sys

import pytest

from embedder.server.process import available_cores


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        *((quota, 2) for quota in ("200000 100000", "250000 100000")),
        *((quota, 1) for quota in ("150000 100000", "50000 100000")),
        *((quota, 8) for quota in ("max 100000", "", None)),
    ],
)
def test_a_quota_counts(tmp_path, quota, cores):
    """A part of a core is left out, but one worker always works."""
    if quota is not None:
        (tmp_path / "cpu.max").write_text(quota)
    assert available_cores(tmp_path) == cores


PROGRAM = """
import ctypes, threading
{first}
library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
threads = [threading.Thread(target=library.malloc, args=(5000,)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library.malloc_info(0, ctypes.c_void_p.in_dll(library, "stdout"))
library.fflush(None)
"""


def output_of(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heaps")
def test_threads_share_one_heap():
    """Without it, threads that allocate get heaps of their own."""
    code = "from embedder.server.process import use_one_heap\nassert use_one_heap()"
    assert output_of(PROGRAM.format(first=code)).count("<heap nr=") == 1
    assert output_of(PROGRAM.format(first="")).count("<heap nr=") > 1


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heap in Linux's pages")
def test_the_heap_stays_small():
    """The kernel gives it no large pages from then on, and large blocks are outside of it."""
    program = """
import ctypes
from embedder.core.huge_pages import back_heap_with_huge_pages
from embedder.server.process import keep_heap_small
assert back_heap_with_huge_pages(8 << 20)
assert keep_heap_small()
library = ctypes.CDLL(None)
library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
blocks = [library.malloc(size) for size in (16 << 20, 1 << 20)]
heap = [line.split()[0].split("-") for line in open("/proc/self/maps") if "[heap]" in line]
print(*(int(heap[0][0], 16) <= block < int(heap[-1][1], 16) for block in blocks))
print(open("/proc/self/smaps").read())
"""
    in_heap, _, pages = output_of(program).partition("\n")
    assert in_heap == "False True"
    heap = pages.rpartition("[heap]\n")[2]
    assert re.search(r"THPeligible: +(\d)", heap)[1] == "0"
    assert "hg" in heap.partition("VmFlags:")[2].splitlines()[0].split()
