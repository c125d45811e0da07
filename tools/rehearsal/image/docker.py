"""A Docker daemon for the rehearsal: the machine's own, or one that is started and stopped here.

The daemon and the kernel's registration of the ARM64 emulator are removed at the end. The whole
machine shares the registration, the daemon's network and the images' names. So only one rehearsal
at a time uses containers, and another waits.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tools.debian import PATH, DebianError, install, run, turn
from tools.process import running

PLATFORM = "linux/arm64"
_BINFMT = Path("/proc/sys/fs/binfmt_misc")
# Long enough for a busy machine. A daemon that exits is noticed immediately.
_START_SECONDS = 600
_STOP_SECONDS = 120
# Not in TMPDIR, which differs between users.
_LOCK = Path("/tmp/embedding-kit-rehearsal.lock")  # noqa: S108  (only locked, never written)
_KEPT = "4GB"
# As the CDK's asset builder: otherwise newer builders create an index, which Lambda refuses.
_BUILDKIT = {"DOCKER_BUILDKIT": "1", "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"}


class ContainersUnavailableError(DebianError):
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
    """Provide a daemon that can run linux/arm64 containers, or raise DebianError.

    The data folder of a daemon that is started here is used again by the next run.
    """
    with turn(_LOCK):
        own = Docker(shutil.which("docker") or "", _BUILDKIT)
        if own.client and own.answers():
            with _arm64_emulation():
                yield own
            return
        try:
            install("dockerd", "iptables", "mmdebstrap", "arch-test")
        except DebianError as error:
            reason = f"no Docker daemon for ARM64 answers, and {error}"
            raise ContainersUnavailableError(reason) from error
        with _arm64_emulation(), _daemon(folder) as docker:
            yield docker


def emulated() -> bool:
    """Return whether linux/arm64 is emulated on this machine."""
    return platform.machine() not in {"aarch64", "arm64"}


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
            environment=os.environ | {"PATH": PATH},
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
        run("mount", "-t", "binfmt_misc", "binfmt_misc", str(_BINFMT))
    try:
        run("update-binfmts", "--enable", "qemu-aarch64")
        if not registered.exists():
            raise ContainersUnavailableError("qemu was not registered")
        yield
    finally:
        with suppress(DebianError):
            run("update-binfmts", "--disable", "qemu-aarch64")
            if not mounted:
                run("umount", str(_BINFMT))
