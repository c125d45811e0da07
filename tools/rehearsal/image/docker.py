"""A Docker daemon for the rehearsal: the machine's own, or one that is started and stopped here.

Debian's `docker.io` runs without systemd: `dockerd` with separate folders. Its data stays in
`folder`. The daemon and the kernel's registration of the ARM64 emulator are removed at the end.

The whole machine shares the registration, the daemon's network and the images' names. So only one
rehearsal at a time uses containers, and another waits.
"""

import fcntl
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ContainersUnavailableError", "Docker", "containers", "emulated"]

_PACKAGES = {
    "dockerd": "docker.io",
    "iptables": "iptables",
    "qemu-aarch64-static": "qemu-user-static",
    "update-binfmts": "binfmt-support",
    "mmdebstrap": "mmdebstrap",
    "arch-test": "arch-test",
}
_BINFMT = Path("/proc/sys/fs/binfmt_misc")
# Long enough for a busy machine. A daemon that exits is noticed at once.
_START_SECONDS = 600
_STOP_SECONDS = 120
# Not in TMPDIR, which differs between users.
_LOCK = Path("/tmp/embedding-kit-rehearsal.lock")  # noqa: S108  (only locked, never written)
_KEPT = "4GB"


class ContainersUnavailableError(RuntimeError):
    """Containers cannot run here; the message names the reason and the requirements."""


@dataclass(frozen=True, kw_only=True)
class Docker:
    """A running daemon and its client.

    Attributes:
        client: The client program.
        environment: The variables that select the daemon and BuildKit.
        own: Whether this rehearsal started the daemon.
    """

    client: str
    environment: dict[str, str]
    own: bool

    def run(self, *arguments: str, stdin: bytes | None = None, cwd: Path | None = None) -> str:
        """Run a command of the client and return its output.

        Raises:
            subprocess.CalledProcessError: It failed; the error contains its output.
        """
        done = subprocess.run(
            [self.client, *arguments],
            env=os.environ | self.environment,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            cwd=cwd,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            output = (done.stdout + done.stderr).decode(errors="replace")[-6000:]
            command = " ".join(["docker", *arguments[:6]])
            raise subprocess.CalledProcessError(done.returncode, f"{command} ...\n{output}")
        return done.stdout.decode(errors="replace")

    def succeeds(self, *arguments: str) -> bool:
        """Return whether a command of the client succeeds."""
        try:
            self.run(*arguments)
        except subprocess.CalledProcessError:
            return False
        return True


@contextmanager
def containers(folder: Path) -> Iterator[Docker]:
    """Provide a daemon that can run linux/arm64 containers.

    Args:
        folder: The data folder of a daemon that is started here; a second run reuses it.

    Raises:
        ContainersUnavailableError: Containers cannot run on this machine.
    """
    with ExitStack() as stack:
        stack.enter_context(_turn(_LOCK))
        yield stack.enter_context(_containers(folder))


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Wait until no other rehearsal on this machine uses containers.

    The kernel releases the lock when the process ends, even if it is killed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        # Readable by all users, whose rehearsals lock the same file.
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = (
                f"waiting for another rehearsal on this machine to end (it holds {path}) ...\n"
            )
            sys.stderr.write(message)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _containers(folder: Path) -> Iterator[Docker]:
    running = _running()
    if running is not None:
        with _arm64_emulation():
            yield running
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ContainersUnavailableError(
            "containers cannot run here: no Docker daemon answers, and to start one this needs "
            "root and apt-get"
        )
    _install(["dockerd", "iptables", "mmdebstrap", "arch-test"])
    with _arm64_emulation(), _daemon(folder) as docker:
        yield docker


def emulated() -> bool:
    """Return whether linux/arm64 is emulated on this machine."""
    return platform.machine() not in {"aarch64", "arm64"}


def _running() -> Docker | None:
    client = shutil.which("docker")
    if client is None:
        return None
    docker = Docker(client=client, environment={"DOCKER_BUILDKIT": "1"}, own=False)
    return docker if docker.succeeds("version", "--format", "{{.Server.Version}}") else None


def _install(programs: list[str]) -> None:
    missing = sorted({_PACKAGES[p] for p in programs if shutil.which(p, path=_PATH) is None})
    if not missing:
        return
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    quiet = ["--yes", "--quiet", "--no-install-recommends"]
    for command in (["apt-get", "update", "--quiet"], ["apt-get", "install", *quiet, *missing]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ContainersUnavailableError(
                f"containers cannot run here: {' '.join(command)} failed:\n{done.stderr[-2000:]}"
            )


# A user's PATH may lack the folders of Debian's daemons.
_PATH = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin"


@contextmanager
def _daemon(folder: Path) -> Iterator[Docker]:
    folder.mkdir(parents=True, exist_ok=True)
    # A socket's path must be short, and a checkout's may be long.
    place = Path("/run") / f"rehearsal-{os.getpid()}"
    place.mkdir()
    docker = Docker(
        # Debian's client, which uses its daemon's BuildKit without a plugin.
        client="/usr/bin/docker",
        environment={"DOCKER_HOST": f"unix://{place}/docker.sock", "DOCKER_BUILDKIT": "1"},
        own=True,
    )
    command = ["dockerd", "--data-root", str(folder / "data"), "--exec-root", str(place / "exec")]
    command += ["--pidfile", str(place / "pid"), "--host", docker.environment["DOCKER_HOST"]]
    log_path = folder / "dockerd.log"
    with log_path.open("wb") as log:
        daemon = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=os.environ | {"PATH": _PATH},
        )
        try:
            _wait_until_up(docker, daemon, log_path)
            yield docker
            # The folder is kept for the next run; this bounds its size.
            docker.run("image", "prune", "--force")
            docker.run("builder", "prune", "--force", "--keep-storage", _KEPT)
        finally:
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
            shutil.rmtree(place, ignore_errors=True)


def _wait_until_up(docker: Docker, daemon: subprocess.Popen[bytes], log_path: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while not docker.succeeds("version", "--format", "{{.Server.Version}}"):
        if daemon.poll() is not None or time.monotonic() > end:
            log = log_path.read_text(errors="replace")[-2000:]
            raise ContainersUnavailableError(
                f"containers cannot run here: dockerd did not start:\n{log}"
            )
        time.sleep(0.2)


@contextmanager
def _arm64_emulation() -> Iterator[None]:
    """Register QEMU with the kernel for ARM64 programs, and unregister it at the end."""
    registered = _BINFMT / "qemu-aarch64"
    if not emulated() or platform.system() != "Linux" or registered.exists():
        yield
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ContainersUnavailableError(
            "containers for ARM64 cannot run here: no emulator is registered with the kernel, and "
            "to register qemu this needs root and apt-get"
        )
    _install(["qemu-aarch64-static", "update-binfmts"])
    mounted = (_BINFMT / "register").exists()
    if not mounted:
        _must(["mount", "-t", "binfmt_misc", "binfmt_misc", str(_BINFMT)])
    try:
        _must(["update-binfmts", "--enable", "qemu-aarch64"])
        if not registered.exists():
            raise ContainersUnavailableError("containers cannot run here: qemu was not registered")
        yield
    finally:
        subprocess.run(
            ["update-binfmts", "--disable", "qemu-aarch64"],
            env=os.environ | {"PATH": _PATH},
            check=False,
            capture_output=True,
        )
        if not mounted:
            subprocess.run(["umount", str(_BINFMT)], check=False, capture_output=True)


def _must(command: list[str]) -> None:
    done = subprocess.run(
        command, env=os.environ | {"PATH": _PATH}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ContainersUnavailableError(
            f"containers cannot run here: {' '.join(command)}: {done.stderr.strip()}"
        )
