"""An image of the Dockerfile: built, its files and layers checked, and run.

The rules about files hold for a zip, too: those that a run needs, each readable and once.
"""

import hashlib
import json
import re
import tarfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.rehearsal.image.asset import ImageAsset, build
from tools.rehearsal.image.docker import PLATFORM, Docker
from tools.rehearsal.image.runtime import Tested
from tools.rehearsal.report import Report, first_few

#: The size from which a file may not be there twice.
_LARGE_BYTES = 1_000_000
_TASK = "var/task/"
#: Files that only a build needs, by their path below /var/task. The Python module of ONNX Runtime
#: contains its engine: libonnxruntime.so is a second copy.
_LEFTOVERS = re.compile(
    r"(^|/)(\.cache|pip-cache|\.npm|tests?)/"
    r"|(^|/)(test_[^/]*|conftest)\.py$"
    r"|^(pip|setuptools|wheel|ensurepip)(/|-)"
    r"|^(model_compiler|onnx|safetensors|huggingface_hub|ml_dtypes)(/|-)"
    r"|(^|/)(gcc|g\+\+|cc|clang|ld|make|cmake|pytorch_model\.bin)$"
    r"|\.(whl|c|cc|cpp|pyx|pxd|h|hpp|o|a|safetensors)$"
    r"|/libonnxruntime\.so(\.|$)"
)
#: The first bytes of a library, and the machine in its header: see elf(5).
_ELF, _AARCH64 = b"\x7fELF", (183).to_bytes(2, "little")


def unpack_image(docker: Docker, image: str, folder: Path) -> set[str]:
    """Unpack /var/task of an image into a new folder; return the paths of all other files."""
    archive = folder.with_suffix(".tar")
    container = docker.run("create", "--platform", PLATFORM, image).strip()
    docker.run("export", "--output", str(archive), container)
    docker.run("rm", container)
    folder.mkdir()
    with tarfile.open(archive) as tar:
        files = [member for member in tar if not member.isdir()]
        ours = [member for member in files if member.name.startswith(_TASK)]
        others = {member.name for member in files} - {member.name for member in ours}
        for member in ours:
            member.name = member.name.removeprefix(_TASK)
        # Python 3.11.2, of Debian 12, has no filters, and no parameter for one.
        tar.extraction_filter = getattr(tarfile, "tar_filter", None)
        tar.extractall(folder, ours)  # noqa: S202 -- the files of our own image
    archive.unlink()
    return others


def unpack_zip(archive: Path, folder: Path) -> None:
    """Unpack a zip into a new folder, with the modes of its files."""
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            Path(opened.extract(entry, folder)).chmod(entry.external_attr >> 16)


def check_tree(report: Report, folder: Path, *, most_bytes: int) -> None:
    """Check the unpacked files of /var/task, which without model and index have a limit."""
    files = {
        str(path.relative_to(folder)): path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    sizes = Counter[str]()
    groups: defaultdict[str, list[str]] = defaultdict(list)
    foreign = []
    for name, path in files.items():
        sizes[name.partition("/")[0]] += path.stat().st_size
        if path.stat().st_size >= _LARGE_BYTES:
            groups[hashlib.sha256(path.read_bytes()).hexdigest()].append(name)
        with path.open("rb") as opened:
            header = opened.read(20)
        if header.startswith(_ELF) and header[18:] != _AARCH64:
            foreign.append(name)
    left = [name for name in files if _LEFTOVERS.search(name)]
    check = "no caches, tests, compilers, sources of libraries or of the model are in it"
    report.check(check, not left, first_few(left))
    doubled = [" = ".join(names) for names in groups.values() if len(names) > 1]
    report.check("no file of 1 MB or more is in it twice", not doubled, first_few(doubled))
    closed = [name for name, path in files.items() if not path.stat().st_mode & 0o004]
    report.check("Lambda's user, who owns no file, can read each", not closed, first_few(closed))
    report.check("each library is for ARM64", not foreign, first_few(foreign))
    rest = sizes.total() - sizes["artifact"] - sizes["index"]
    largest = ", ".join(f"{name} {size / 1e6:.1f}" for name, size in sizes.most_common(6))
    check = f"everything except the model is under {most_bytes / 1e6:.0f} MB unpacked"
    report.check(check, rest < most_bytes, f"{rest / 1e6:.1f} MB; the largest: {largest}")


EMBEDDER = "embedder.aws_lambda.handler.handler"
#: The emulator's timeout of one request. Answers are checked for correctness, not for speed: with
#: an emulated processor on a busy machine, one text took 407 s, too close to Lambda's 900 s.
_FUNCTION_SECONDS = 6 * 3600
# Runs with the image's Python. Python uses a .pyc without a look at its source if the flags of its
# header say so (PEP 552): 0b01 is a hash of the source that is not checked.
_BYTECODE = """
import importlib.util, pathlib
sources = list(pathlib.Path("/var/task").rglob("*.py"))
for source in sources:
    compiled = pathlib.Path(importlib.util.cache_from_source(source))
    header = compiled.read_bytes()[:16] if compiled.exists() else b""
    hashed = importlib.util.source_hash(source.read_bytes())
    if header != importlib.util.MAGIC_NUMBER + bytes([1, 0, 0, 0]) + hashed:
        print(source)
print(len(sources))
"""


@dataclass(frozen=True, kw_only=True)
class Target:
    """An image, the variables that the stacks give it, and its limits.

    The limit is for everything except the base and the model, unpacked; `check` runs the image.
    """

    name: str
    asset: ImageAsset
    variables: Mapping[str, str]
    command: tuple[str, ...]
    most_bytes: int
    check: Callable[[Tested], None]


def build_target(
    report: Report, docker: Docker, target: Target, *, base: str, folder: Path
) -> Tested:
    """Build an image, and check its command, its files and its byte code."""
    asset = target.asset
    with report.step(f"building the {target.name} image: docker {' '.join(asset.command)}"):
        build(docker, asset)
    tested = Tested(
        report=report,
        docker=docker,
        asset=asset,
        variables=target.variables,
        folder=folder,
        task=folder / "task",
    )
    with report.step(f"reading the files of the {target.name} image"):
        others = unpack_image(docker, asset.tag, tested.task)
        added = sorted(others - unpack_image(docker, base, folder / "base"))
    place = docker.run("image", "inspect", "--format", "{{.Os}}/{{.Architecture}}", asset.tag)
    stated = docker.run("image", "inspect", "--format", "{{json .Config.Cmd}}", asset.tag)
    command = tuple(json.loads(stated) or ())
    check = f"it is for {PLATFORM}, and its default command is {' '.join(target.command)}"
    holds = (place.strip(), command) == (PLATFORM, target.command)
    report.check(check, holds, f"{place.strip()}, {' '.join(command)}")
    report.check("it adds nothing outside /var/task", not added, first_few(added))
    check_tree(report, tested.task, most_bytes=target.most_bytes)
    check_bytecode(tested)
    return tested


def check_bytecode(tested: Tested, mounts: Mapping[Path, str] | None = None) -> None:
    """Check that Python compiles no module when it starts."""
    *faults, count = tested.python(_BYTECODE, mounts=mounts).split()
    check = f"each of its {count} modules has byte code that Python does not check at a start"
    tested.report.check(check, not faults and count != "0", first_few(faults))


def function_variables(function: dict[str, Any]) -> dict[str, str]:
    """Return the variables that the stacks set for a function, and those that Lambda sets."""
    stated = function.get("Environment", {}).get("Variables", {})
    return {
        **{name: value for name, value in stated.items() if isinstance(value, str)},
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.get("MemorySize", 128)),
        "AWS_LAMBDA_FUNCTION_NAME": "rehearsal",
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(_FUNCTION_SECONDS),
        "LAMBDA_TASK_ROOT": "/var/task",
    }
