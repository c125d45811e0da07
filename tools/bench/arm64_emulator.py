"""An emulated ARM64 processor: Python runs in a tree of Debian, and its instructions are counted.

QEMU's user mode runs ARM64 programs next to the machine's own; a plugin counts. Debian 12's package
`qemu-user` has plugins, the static ones of later releases have not. This needs root.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from model_compiler.artifact.writer import new_folder
from tools.bench.report import ROOT
from tools.debian import RELEASES, DebianError, install, run, write_tree

#: Names of processors, and QEMU's for them: `max` has the int8 matrix products of ARMv8.6.
PROCESSORS: Mapping[str, str] = {"N1": "neoverse-n1", "i8mm": "max,sve=off,sme=off"}
_IMAGE = ROOT / "lambda_image"
_BENCH = Path(__file__).parent
_PACKAGES = "python3-minimal,libpython3-stdlib,libstdc++6"
#: Another engine, at the version of the other benchmarks.
_PEERS = ("ai-edge-litert",)
_PLATFORMS = ("_2_34", "_2_28", "_2_27", "_2_17", "2014")
# Its arguments are a program's: there, Linux shows one processor, and not this machine's.
_ONE_PROCESSOR = """
mount -t tmpfs none /sys/devices/system/cpu
for list in possible present online; do echo 0 >/sys/devices/system/cpu/$list; done
exec "$@"
"""


class Emulator:
    """QEMU with the plugin, and an ARM64 tree with Debian's Python, wheels and the image's code.

    Attributes:
        worker: The program that counts, for `python`.
        versions: The versions of QEMU and of Python, which counts depend on.
    """

    def __init__(self, folder: Path) -> None:
        install("mmdebstrap", "arch-test", "qemu-aarch64", "cc")
        if "-plugin" not in run("qemu-aarch64", "--help"):
            raise DebianError("qemu-aarch64 must have plugins, as Debian 12's has; it has none")
        self._folder = folder.resolve()
        version = (_IMAGE / ".python-version").read_text("ascii").strip()
        pins = (_BENCH / "environments" / "peers.txt").read_text("utf-8").splitlines()
        peers = [pin for pin in pins if pin.partition("==")[0] in _PEERS]
        image = _IMAGE / "requirements.txt"
        recipe = "\n".join([version, _PACKAGES, *peers, image.read_text("utf-8")])
        marker = self._folder / "recipe.txt"
        if not marker.exists() or marker.read_text("utf-8") != recipe:
            with new_folder(self._folder, marker=marker.name) as unfinished:
                _write_tree(unfinished, version)
                for wheels in (["--require-hashes", "--requirement", str(image)], peers):
                    _install_wheels(unfinished / "packages", version, wheels)
                (unfinished / marker.name).write_text(recipe, encoding="utf-8")
        program = self._folder / "program"
        shutil.rmtree(program, ignore_errors=True)
        shutil.copytree(_IMAGE / "embedder", program / "embedder")
        self.worker = str(shutil.copy(_BENCH / "arm64_worker.py", program))
        self._interpreter = str(self._folder / "root" / "usr" / "bin" / f"python{version}")
        self._plugin = str(self._folder / "plugin.so")
        source = str(_BENCH / "instruction_counter.c")
        run("cc", "-O2", "-shared", "-fPIC", "-o", self._plugin, source)
        printed = (run("qemu-aarch64", "--version"), self.python("N1", "--version", counted=False))
        self.versions = dict(zip(("QEMU", "Python"), map(_version, printed), strict=True))

    def python(self, processor: str, *arguments: str, counted: bool = True) -> str:
        """Run Python with these arguments, and return its output."""
        # With the same addresses and the same random numbers in each run.
        command = ["unshare", "--mount", "sh", "-euc", _ONE_PROCESSOR, "sh", "setarch", "-R"]
        command += ["qemu-aarch64", "-cpu", PROCESSORS[processor], "-B", "0", "-seed", "1"]
        command += ["-L", str(self._folder / "root")]
        command += ["-plugin", self._plugin] if counted else []
        path = ":".join(str(self._folder / name) for name in ("program", "packages"))
        # Nothing of this machine's environment: its size would be counted, too.
        programs = "/usr/sbin:/usr/bin:/sbin:/bin"
        variables = {"PATH": programs, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
        command += [self._interpreter, *arguments]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)  # noqa: S603 - of the tree
        if done.returncode:
            raise SystemExit(f"error: {' '.join(command)}:\n{done.stderr.strip()[-2000:]}")
        return done.stdout


def _version(printed: str) -> str:
    return str(re.findall(r"\d+\.\d+\.\d+", printed)[0])


def _write_tree(folder: Path, version: str) -> None:
    archive, root = folder / "root.tar", folder / "root"
    write_tree(archive, release=RELEASES[version], architecture="arm64", packages=_PACKAGES)
    root.mkdir()
    run("tar", "-C", str(root), "-xf", str(archive), "--exclude=./dev/*")
    archive.unlink()
    (root / "lib").symlink_to("usr/lib")  # Debian's scripts make it, and none runs.


def _install_wheels(target: Path, version: str, wheels: Sequence[str]) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    command += ["--only-binary=:all:", "--python-version", version, "--target", str(target)]
    command += [f"--platform=manylinux{platform}_aarch64" for platform in _PLATFORMS]
    run(*command, *wheels)
