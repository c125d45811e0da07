"""Packages of this machine's Debian, and trees of other releases: both need root and a mirror."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Debian's release by the Python that it ships; forky is not released yet.
RELEASES = {"3.14": "forky", "3.13": "trixie", "3.11": "bookworm"}
#: A user's PATH may lack the folders of Debian's daemons.
PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"
#: Program → the packages that it needs.
_PACKAGES = {
    "arch-test": ["arch-test"],
    "cc": ["gcc", "libc6-dev"],
    "dockerd": ["docker.io"],
    "iptables": ["iptables"],
    "mmdebstrap": ["mmdebstrap"],
    "qemu-aarch64": ["qemu-user"],
    "qemu-aarch64-static": ["qemu-user-static"],
    "update-binfmts": ["binfmt-support"],
}
# Not in TMPDIR, which differs between users.
_LOCK = Path("/tmp/embedding-kit-install.lock")  # noqa: S108  (only locked, never written)


class DebianError(RuntimeError):
    """Debian's packages cannot be installed here, or one of its programs failed."""


def install(*programs: str) -> None:
    """Install the packages of missing programs, or raise DebianError."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise DebianError(f"{', '.join(programs)}: to install them, this needs root and apt-get")
    with turn(_LOCK):  # `apt-get update` does not wait for another
        absent = [program for program in programs if shutil.which(program, path=PATH) is None]
        packages = sorted({package for program in absent for package in _PACKAGES[program]})
        if packages:
            run("apt-get", "update", "--quiet")
            run("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *packages)


def write_tree(archive: Path, *, release: str, architecture: str, packages: str) -> None:
    """Write a tar archive of a release's files for an architecture; apt checks their signatures.

    No program of the other processor runs, so this needs no emulator and takes seconds. It needs
    the programs mmdebstrap and arch-test.
    """
    command = ["mmdebstrap", "--quiet", "--variant=extract", f"--architectures={architecture}"]
    # An old mirror is enough.
    command += ['--aptopt=Acquire::Check-Valid-Until "false"', f"--include={packages}"]
    run(*command, release, str(archive))


def run(*command: str) -> str:
    """Run a program as root, and return its output; or raise DebianError, with its last errors."""
    variables = os.environ | {"PATH": PATH, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DebianError(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
    return done.stdout


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Wait until no other process on this machine has the lock of a file.

    The kernel releases the lock when the process ends, even if it is killed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        # Readable by all users: their processes lock the same file.
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another process to end, which holds {path} ...", flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
