"""The processor's instructions, and AMX hidden from the contenders."""

import errno
import platform
import subprocess
import sys

import pytest

from tools.bench.processor import features

REQUEST = """
import ctypes
system = ctypes.CDLL(None, use_errno=True)
print(system.syscall(158, {operation}, 18), ctypes.get_errno())
"""
HIDDEN = """
import subprocess, sys
from tools.bench.processor import hide_amx
hide_amx()
for request in sys.argv[1:]:
    subprocess.run([sys.executable, "-c", request], check=True)
"""


@pytest.mark.parametrize(
    ("cpuinfo", "names"),
    [
        (
            "model name : x\nflags\t\t: fpu avx2 avx_vnni amx_int8\nflags : fpu",
            ["AVX2", "VNNI", "AMX"],
        ),
        ("flags : avx512f avx2 avx512_vnni avx512f_other", ["AVX2", "AVX-512", "VNNI"]),
        ("Features\t: fp asimddp sve i8mm", ["dotprod", "i8mm", "SVE"]),
        ("Features\t: fp asimd", []),
        ("", []),
    ],
)
def test_instructions_are_those_that_linux_names(cpuinfo, names):
    """x86 and ARM64 have other words for them; other systems have no such file."""
    assert features(cpuinfo) == names


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="AMX is x86's, on Linux"
)
def test_amx_is_refused_to_the_programs_that_are_started():
    """Linux itself would answer the request for its registers otherwise, with AMX or without."""
    request, permission = (REQUEST.format(operation=number) for number in (0x1023, 0x1024))
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN, request, permission],
        check=True,
        capture_output=True,
        text=True,
    )
    refused, answered = done.stdout.splitlines()
    assert refused == f"-1 {errno.EPERM}"
    assert not answered.endswith(f" {errno.EPERM}")
