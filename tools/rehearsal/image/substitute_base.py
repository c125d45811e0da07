"""The base images of the Dockerfile: pulled, or replaced by a substitute if no registry answers.

A substitute is Debian with the Python version of the base image's tag, AWS's runtime interface
client and emulator, under the base image's name. It is not Amazon Linux: it tests our layers on
that Python and that processor, and the report says so.
"""

import hashlib
import importlib.metadata
import io
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tools.debian import RELEASES, write_tree
from tools.local_endpoint.runtime import emulator_binary
from tools.rehearsal.image.asset import ImageAsset
from tools.rehearsal.image.docker import Docker
from tools.rehearsal.report import Report

_PACKAGES = "python3,python3-pip,ca-certificates,libstdc++6,libc-bin,coreutils,dash,bash"
_SUBSTITUTE = Path(__file__).parent / "substitute"
_CLIENT_VERSION = importlib.metadata.version("awslambdaric")
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def bases(asset: ImageAsset) -> dict[str, str]:
    """Return the architecture of each base image; the one of the last stages comes last.

    AWS's tags end with an architecture that is not the building machine's.
    """
    dockerfile = (asset.context / "Dockerfile").read_text()
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)", dockerfile, re.MULTILINE)) | asset.arguments
    names = re.findall(r"^FROM (?:--platform=\S+ )?(\S+)", dockerfile, re.MULTILINE)

    def fill(name: str) -> str:
        """Replace the arguments in a name, and those in their values."""
        filled = re.sub(r"\$\{?(\w+)\}?", lambda m: arguments.get(m[1], m[0]), name)
        return filled if filled == name else fill(filled)

    machine = _MACHINES[platform.machine().lower()]
    target_machine = (asset.platform or f"linux/{machine}").rpartition("/")[2]
    bases = {}
    filled = {name for name in map(fill, names) if "/" in name}
    for name in sorted(filled, key=lambda n: n.endswith("-arm64")):
        tagged = re.search(r"-(arm64|x86_64)$", name)
        architecture = _MACHINES[tagged[1]] if tagged else machine
        if not tagged or architecture == target_machine:
            bases[name] = architecture
    return bases


def ensure_bases(report: Report, docker: Docker, asset: ImageAsset) -> str:
    """Pull every base image, or build a substitute; return the base of the last stages."""
    with report.step("getting the base images"):
        for name, architecture in bases(asset).items():
            origin = "AWS's image, pulled"
            if not docker.succeeds("pull", "--platform", f"linux/{architecture}", name):
                _ensure_substitute(docker, name, architecture)
                origin = "a substitute, because no registry answered: Debian with the same Python"
            report.notes.append(f"Base image {name} ({architecture}): {origin}.")
    return name


def _ensure_substitute(docker: Docker, base: str, architecture: str) -> None:
    match = re.search(r"python:(\d+\.\d+)", base)
    if match is None or match[1] not in RELEASES:
        raise ValueError(
            f"no substitute can be built for the base image {base}; allowed: a Python image of "
            f"{', '.join(RELEASES)}"
        )
    version = match[1]
    recipe = hashlib.sha256(f"{architecture} {version} {_CLIENT_VERSION}".encode())
    for path in (Path(__file__), *sorted(_SUBSTITUTE.iterdir())):
        recipe.update(path.read_bytes())
    inspect = ("image", "inspect", "--format", "{{json .Config.Labels}}", base)
    if docker.succeeds(*inspect) and recipe.hexdigest() in docker.run(*inspect):
        return
    with tempfile.TemporaryDirectory(prefix="base-") as name:
        context = Path(name)
        release = RELEASES[version]
        rootfs = context / "rootfs.tar"
        write_tree(rootfs, release=release, architecture=architecture, packages=_PACKAGES)
        _layout(context / "layout.tar", architecture=architecture, version=version)
        (context / "Dockerfile").write_bytes((_SUBSTITUTE / "Dockerfile").read_bytes())
        label = f"rehearsal.recipe={recipe.hexdigest()}"
        build_options = ["--platform", f"linux/{architecture}", "--label", label]
        docker.run("build", "--tag", base, *build_options, ".", cwd=context)


def _layout(output: Path, *, architecture: str, version: str) -> None:
    """Write the files that Debian lacks: the runtime, the emulator, and Lambda's paths."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}[architecture]
    with tempfile.TemporaryDirectory(prefix="runtime-") as name, tarfile.open(output, "w") as tar:
        runtime = Path(name)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(runtime)]
        command += ["--only-binary=:all:", "--python-version", version, "--implementation", "cp"]
        for tag in ("manylinux_2_28", "manylinux_2_17", "manylinux2014"):
            command += ["--platform", f"{tag}_{machine}"]
        subprocess.run([*command, f"awslambdaric=={_CLIENT_VERSION}"], check=True)
        tar.add(runtime, "var/runtime", filter=_owned_by_root)
        emulator = emulator_binary(machine)
        if emulator is None:
            raise RuntimeError("the runtime interface emulator is missing: run scripts/setup")
        _add(tar, "usr/local/bin/aws-lambda-rie", emulator.read_bytes(), mode=0o755)
        entry = (_SUBSTITUTE / "lambda-entrypoint.sh").read_bytes()
        _add(tar, "lambda-entrypoint.sh", entry, mode=0o755)
        for program in ("python", "python3", f"python{version}"):
            _link(tar, f"var/lang/bin/{program}", f"/usr/bin/python{version}")
        _link(tar, "var/lang/bin/pip", "/usr/bin/pip3")
        # The files that Debian's scripts would write: accounts and certificate authorities.
        _add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        _add(tar, "etc/group", b"root:x:0:\n")
        _add(tar, "etc/ssl/certs/ca-certificates.crt", _authorities(output.parent / "rootfs.tar"))


def _authorities(rootfs: Path) -> bytes:
    with tarfile.open(rootfs) as tar:
        members = [m for m in tar if "/share/ca-certificates/mozilla/" in m.name and m.isfile()]
        files = [tar.extractfile(m) for m in sorted(members, key=lambda m: m.name)]
        return b"".join(file.read() for file in files if file is not None)


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    # Only its owner can read a temporary folder, but Lambda's user reads the runtime.
    member.mode |= 0o555 if member.isdir() else 0o444
    return member


def _add(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    tar.addfile(member, io.BytesIO(content))


def _link(tar: tarfile.TarFile, name: str, target: str) -> None:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    tar.addfile(member)
