"""The processor of a run: its instructions for int8 products, and how AMX is hidden."""

import ctypes
import errno
import platform
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence

AMX = "AMX"
#: What tables name → the names of it in Linux's /proc/cpuinfo.
_FLAGS: Mapping[str, Sequence[str]] = {
    "AVX2": ["avx2"],
    "AVX-512": ["avx512f"],
    "VNNI": ["avx512_vnni", "avx_vnni"],
    AMX: ["amx_int8"],
    "dotprod": ["asimddp"],
    "i8mm": ["i8mm"],
    "SVE": ["sve"],
}
# Numbers of Linux: system calls of x86-64, operations of prctl and arch_prctl, and a filter's
# answers (seccomp(2), https://docs.kernel.org/arch/x86/xstate.html).
_ARCH_X86_64, _ARCH_PRCTL, _REQUEST_REGISTERS = 0xC000003E, 158, 0x1023
_NO_NEW_PRIVILEGES, _SET_FILTER, _FILTER = 38, 22, 2
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM


def features(cpuinfo: str) -> list[str]:
    """Return the instructions of the first processor in the text of /proc/cpuinfo."""
    lines = (line.partition(":") for line in cpuinfo.splitlines())
    names = next((text for key, _, text in lines if key.strip() in {"flags", "Features"}), "")
    return [name for name, flags in _FLAGS.items() if set(flags) & set(names.split())]


def hide_amx() -> None:
    """Refuse AMX to the programs that this process starts from now on.

    Linux gives a program AMX's registers only after arch_prctl(ARCH_REQ_XCOMP_PERM), which ONNX
    Runtime, oneDNN and OpenVINO call before they use them. A filter of system calls answers it with
    EPERM.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        machine = f"{sys.platform}, {platform.machine()}"
        raise SystemExit(f"error: --hide-amx needs Linux on x86_64; found: {machine}")
    code = b"".join(_instructions())
    program = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: the number of instructions of 8 bytes, and where they are.
    argument = struct.pack("@HP", len(code) // 8, ctypes.addressof(program))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or prctl(_SET_FILTER, _FILTER, argument, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter of system calls")


def _instructions() -> Iterator[bytes]:
    """Yield the filter in BPF (https://docs.kernel.org/userspace-api/seccomp_filter.html)."""
    load, jump_if_equal, answer = 0x20, 0x15, 0x06
    # Offsets in struct seccomp_data of the architecture, the system call, and its first argument.
    checks = [(4, _ARCH_X86_64), (0, _ARCH_PRCTL), (16, _REQUEST_REGISTERS)]
    for number, (offset, expected) in enumerate(checks):
        to_allow = 2 * (len(checks) - number) - 1
        yield struct.pack("=HBBI", load, 0, 0, offset)
        yield struct.pack("=HBBI", jump_if_equal, 0, to_allow, expected)
    yield struct.pack("=HBBI", answer, 0, 0, _REFUSE)
    yield struct.pack("=HBBI", answer, 0, 0, _ALLOW)
