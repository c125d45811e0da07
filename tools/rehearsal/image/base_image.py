"""The base images of a Dockerfile: pulled, or replaced by a substitute if no registry answers.

A substitute is Debian with the Python version of the base image's tag, AWS's runtime interface
client and emulator, under the base image's name. It is not Amazon Linux: it tests our layers on
that Python and that processor, and the report says so.
"""

import hashlib
import importlib.metadata
import importlib.util
import io
import platform
import re
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.rehearsal.image.asset import ImageAsset
from tools.rehearsal.image.docker import Docker

__all__ = ["Base", "ensure_bases", "final_base", "named_bases"]

#: Debian's release by the Python that it ships.
_DEBIAN_RELEASES = {"3.13": "trixie", "3.11": "bookworm"}
_PACKAGES = "python3,python3-pip,ca-certificates,libstdc++6,libc-bin,coreutils,dash,bash"
_FROM = re.compile(
    r"FROM\s+(?:--platform=(?P<platform>\S+)\s+)?(?P<image>\S+)(?:\s+AS\s+(?P<name>\S+))?",
    re.IGNORECASE,
)
_USED = re.compile(r"(?:--from=|\bfrom=)([\w-]+)")
_ARGUMENT = re.compile(r"ARG\s+(\w+)=(\S+)", re.IGNORECASE)
_SUBSTITUTE = Path(__file__).parent / "substitute"
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True, kw_only=True)
class Base:
    """An image that the Dockerfile starts a stage from.

    Attributes:
        name: Its name and tag.
        architecture: `amd64` or `arm64`.
        origin: "pulled" or "substitute"; empty before `ensure_bases`.
    """

    name: str
    architecture: str
    origin: str = ""


def named_bases(asset: ImageAsset) -> list[Base]:
    """List the base images of the built stage and of the stages it needs; its own comes last."""
    building = _MACHINES[platform.machine().lower()]
    wanted = (asset.platform or f"linux/{building}").rpartition("/")[2]
    values = {"TARGETARCH": wanted, "BUILDPLATFORM": f"linux/{building}", **asset.arguments}
    stages = _stages((asset.context / asset.file).read_text(), values)
    found: list[Base] = []

    def visit(stage: _Stage) -> None:
        for name in stage.uses:
            if name in stages:
                visit(stages[name])
        if stage.image in stages:
            visit(stages[stage.image])
        elif stage.image != "scratch":
            architecture = (stage.platform or wanted).rpartition("/")[2]
            base = Base(name=stage.image, architecture=architecture)
            found[:] = [known for known in found if known != base] + [base]

    visit(stages[asset.target] if asset.target else list(stages.values())[-1])
    return found


@dataclass
class _Stage:
    image: str
    platform: str | None
    uses: list[str]


def _stages(dockerfile: str, values: dict[str, str]) -> dict[str, _Stage]:
    stages: dict[str, _Stage] = {}

    def filled(text: str) -> str:
        return re.sub(r"\$\{?(\w+)\}?", lambda m: values.get(m[1], m[0]), text)

    for line in dockerfile.splitlines():
        if not stages and (argument := _ARGUMENT.match(line)):
            values.setdefault(argument[1], argument[2])
        if match := _FROM.match(line):
            asked = match["platform"] and filled(match["platform"])
            name = match["name"] or str(len(stages))
            stages[name] = _Stage(image=filled(match["image"]), platform=asked, uses=[])
        elif stages and not line.lstrip().startswith("#"):
            list(stages.values())[-1].uses += _USED.findall(line)
    return stages


def final_base(asset: ImageAsset) -> Base:
    """Return the base image of the last stage."""
    return named_bases(asset)[-1]


def ensure_bases(docker: Docker, asset: ImageAsset) -> list[Base]:
    """Pull every base image of a Dockerfile, or build a substitute.

    Raises:
        ValueError: The Dockerfile needs one tag on two platforms, which a substitute cannot be.
    """
    bases = named_bases(asset)
    present = []
    for base in bases:
        pulled = docker.succeeds("pull", "--platform", f"linux/{base.architecture}", base.name)
        if not pulled and any(b.name == base.name and b != base for b in bases):
            raise ValueError(
                f"{base.name} is used on two platforms, and a substitute has one platform per tag: "
                "use different tags for the build stages and the last stage"
            )
        if not pulled:
            _ensure_substitute(docker, base)
        origin = "pulled" if pulled else "substitute"
        present.append(Base(name=base.name, architecture=base.architecture, origin=origin))
    return present


def _ensure_substitute(docker: Docker, base: Base) -> None:
    version = _python_version(base.name)
    recipe = hashlib.sha256()
    for path in (Path(__file__), *sorted(_SUBSTITUTE.iterdir())):
        recipe.update(path.read_bytes())
    recipe.update(f"{base.architecture} {version} {_client_version()}".encode())
    label = f"rehearsal.recipe={recipe.hexdigest()}"
    if label.partition("=")[2] in _labels(docker, base.name):
        return
    with tempfile.TemporaryDirectory(prefix="base-") as name:
        context = Path(name)
        _debian(context / "rootfs.tar", architecture=base.architecture, version=version)
        _layout(context / "layout.tar", architecture=base.architecture, version=version)
        (context / "Dockerfile").write_bytes((_SUBSTITUTE / "Dockerfile").read_bytes())
        wanted = ["--platform", f"linux/{base.architecture}", "--label", label]
        docker.run("build", "--tag", base.name, *wanted, ".", cwd=context)


def _labels(docker: Docker, name: str) -> str:
    if not docker.succeeds("image", "inspect", name):
        return ""
    return docker.run("image", "inspect", "--format", "{{json .Config.Labels}}", name)


def _python_version(name: str) -> str:
    match = re.search(r"python:(\d+\.\d+)", name)
    if match is None or match[1] not in _DEBIAN_RELEASES:
        raise ValueError(
            f"no substitute can be built for the base image {name}; allowed: a Python image of "
            f"{', '.join(_DEBIAN_RELEASES)}"
        )
    return match[1]


def _debian(output: Path, *, architecture: str, version: str) -> None:
    release = _DEBIAN_RELEASES[version]
    # "extract" runs no program of the other processor, so it needs no emulator and takes seconds.
    command = ["mmdebstrap", "--quiet", "--variant=extract", f"--architectures={architecture}"]
    command += [f"--include={_PACKAGES}", release, str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"mmdebstrap failed for {architecture}:\n{done.stderr[-2000:]}")


def _client_version() -> str:
    return importlib.metadata.version("awslambdaric")


def _layout(output: Path, *, architecture: str, version: str) -> None:
    """Write the files that Debian lacks: the runtime, the emulator, and Lambda's paths."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}[architecture]
    with tempfile.TemporaryDirectory(prefix="runtime-") as name, tarfile.open(output, "w") as tar:
        runtime = Path(name)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(runtime)]
        command += ["--only-binary=:all:", "--python-version", version, "--implementation", "cp"]
        for tag in ("manylinux_2_28", "manylinux_2_17", "manylinux2014"):
            command += ["--platform", f"{tag}_{machine}"]
        subprocess.run([*command, f"awslambdaric=={_client_version()}"], check=True)
        tar.add(runtime, "var/runtime", filter=_owned_by_root)
        emulator = {"amd64": "x86_64", "arm64": "arm64"}[architecture]
        _add(tar, "usr/local/bin/aws-lambda-rie", _emulator(emulator), mode=0o755)
        entry = (_SUBSTITUTE / "lambda-entrypoint.sh").read_bytes()
        _add(tar, "lambda-entrypoint.sh", entry, mode=0o755)
        for program in ("python", "python3", f"python{version}"):
            _link(tar, f"var/lang/bin/{program}", f"/usr/bin/python{version}")
        _link(tar, "var/lang/bin/pip", "/usr/bin/pip3")
        # The files that Debian's scripts would write: accounts and certificate authorities.
        _add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        _add(tar, "etc/group", b"root:x:0:\n")
        _add(tar, "etc/ssl/certs/ca-certificates.crt", _authorities(output.parent / "rootfs.tar"))


def _emulator(architecture: str) -> bytes:
    found = importlib.util.find_spec("samcli")
    if found is None or found.origin is None:
        raise RuntimeError("the runtime interface emulator is missing: run scripts/setup")
    folder = Path(found.origin).parent / "local" / "rapid"
    return (folder / f"aws-lambda-rie-{architecture}").read_bytes()


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
