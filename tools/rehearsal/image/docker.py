"""A Docker daemon for the rehearsal: the machine's own, or one that is started and stopped here.

The daemon and the kernel's registration of the ARM64 emulator are removed at the end. The whole
machine shares the registration, the daemon's network and the images' names. So only one rehearsal
at a time uses containers, and another waits.
"""

import fcntl
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tools.process import running

PLATFORM = "linux/arm64"
_PACKAGES = {
    "dockerd": "docker.io",
    "iptables": "iptables",
    "mmdebstrap": "mmdebstrap",
    "arch-test": "arch-test",
    "qemu-aarch64-static": "qemu-user-static",
    "update-binfmts": "binfmt-support",
}
_BINFMT = Path("/proc/sys/fs/binfmt_misc")
# Long enough for a busy machine. A daemon that exits is noticed immediately.
_START_SECONDS = 600
_STOP_SECONDS = 120
# Not in TMPDIR, which differs between users.
_LOCK = Path("/tmp/embedding-kit-rehearsal.lock")  # noqa: S108  (only locked, never written)
_INSTALL_LOCK = Path("/tmp/embedding-kit-install.lock")  # noqa: S108
_KEPT = "4GB"
# As the CDK's asset builder: otherwise newer builders create an index, which Lambda refuses.
_BUILDKIT = {"DOCKER_BUILDKIT": "1", "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}
# A user's PATH may lack the folders of Debian's daemons.
_PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"


class ContainersUnavailableError(RuntimeError):
    """Containers cannot run here; the message names the reason and the requirements."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"containers cannot run here: {reason}")


@dataclass(frozen=True)
class Docker:
    """A client, and the variables that select its daemon and BuildKit."""

    client: str
    environment: dict[str, str]

    def run(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        cwd: Path | None = None,
        with_errors: bool = False,
    ) -> str:
        """Run a command of the client; return its output, which a CalledProcessError has, too."""
        done = subprocess.run(
            [self.client, *arguments],
            env=os.environ | self.environment,
            input=stdin or b"",
            cwd=cwd,
            capture_output=True,
            check=False,
        )
        printed = done.stdout + (done.stderr if with_errors or done.returncode else b"")
        text = printed.decode(errors="replace")
        if done.returncode:
            command = " ".join(["docker", *arguments[:6]])
            raise subprocess.CalledProcessError(done.returncode, f"{command} ...\n{text[-6000:]}")
        return text

    def succeeds(self, *arguments: str) -> bool:
        """Return whether a command of the client succeeds."""
        try:
            self.run(*arguments)
        except subprocess.CalledProcessError:
            return False
        return True

    def answers(self) -> bool:
        """Return whether the daemon answers."""
        return self.succeeds("version", "--format", "{{.Server.Version}}")


@contextmanager
def containers(folder: Path) -> Iterator[Docker]:
    """Provide a daemon that can run linux/arm64 containers, or raise ContainersUnavailableError.

    The data folder of a daemon that is started here is used again by the next run.
    """
    with _turn(_LOCK):
        own = Docker(shutil.which("docker") or "", _BUILDKIT)
        if own.client and own.answers():
            with _arm64_emulation():
                yield own
            return
        install("dockerd", "iptables", "mmdebstrap", "arch-test")
        with _arm64_emulation(), _daemon(folder) as docker:
            yield docker


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Wait until no other rehearsal on this machine uses containers.

    The kernel releases the lock when the process ends, even if it is killed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        # Readable by all users: their rehearsals lock the same file.
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another rehearsal to end, which holds {path} ...", flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def emulated() -> bool:
    """Return whether linux/arm64 is emulated on this machine."""
    return platform.machine() not in {"aarch64", "arm64"}


def install(*programs: str) -> None:
    """Install the packages of missing programs, or raise ContainersUnavailableError."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ContainersUnavailableError(
            "no Docker daemon for ARM64 answers, and to start one this needs root and apt-get"
        )
    with _turn(_INSTALL_LOCK):  # `apt-get update` does not wait for another
        missing = sorted({_PACKAGES[p] for p in programs if shutil.which(p, path=_PATH) is None})
        if missing:
            _must("apt-get", "update", "--quiet")
            _must("apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *missing)


def _must(*command: str) -> None:
    variables = os.environ | {"PATH": _PATH, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ContainersUnavailableError(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")


@contextmanager
def _daemon(folder: Path) -> Iterator[Docker]:
    folder.mkdir(parents=True, exist_ok=True)
    # A socket's path must be short, and a checkout's may be long.
    run_folder = Path("/run") / f"rehearsal-{os.getpid()}"
    run_folder.mkdir()
    host = f"unix://{run_folder}/docker.sock"
    # Debian's client, which uses its daemon's BuildKit without a plugin.
    docker = Docker("/usr/bin/docker", {"DOCKER_HOST": host, **_BUILDKIT})
    command = [
        "dockerd",
        "--data-root",
        str(folder / "data"),
        "--exec-root",
        str(run_folder / "exec"),
    ]
    command += ["--pidfile", str(run_folder / "pid"), "--host", host]
    try:
        with running(
            command,
            ready=docker.answers,
            seconds=_START_SECONDS,
            environment=os.environ | {"PATH": _PATH},
            failure=ContainersUnavailableError,
            seconds_to_stop=_STOP_SECONDS,
            log=folder / "dockerd.log",
        ):
            yield docker
            # The folder is kept for the next run; this bounds its size.
            docker.run("image", "prune", "--force")
            docker.run("builder", "prune", "--force", "--keep-storage", _KEPT)
    finally:
        shutil.rmtree(run_folder, ignore_errors=True)


@contextmanager
def _arm64_emulation() -> Iterator[None]:
    """Register QEMU with the kernel for ARM64 programs, and unregister it at the end."""
    registered = _BINFMT / "qemu-aarch64"
    if not emulated() or platform.system() != "Linux" or registered.exists():
        yield
        return
    install("qemu-aarch64-static", "update-binfmts")
    mounted = (_BINFMT / "register").exists()
    if not mounted:
        _must("mount", "-t", "binfmt_misc", "binfmt_misc", str(_BINFMT))
    try:
        _must("update-binfmts", "--enable", "qemu-aarch64")
        if not registered.exists():
            raise ContainersUnavailableError("qemu was not registered")
        yield
    finally:
        with suppress(ContainersUnavailableError):
            _must("update-binfmts", "--disable", "qemu-aarch64")
            if not mounted:
                _must("umount", str(_BINFMT))
