"""The function's files: the code, the packages as wheels for another machine, and their zip."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from zip_builder import ZipError
from zip_builder.cache import NOT_RUN, cached, digest_of

#: The most that Lambda unpacks, layers included: 250 MB of 1,024².
#: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
LIMIT_BYTES = 262_144_000
#: The packages of the code, without the jobs that only the batch image runs.
_CODE = ("embedder", "jobs/release_check")
_LEFT_OUT = shutil.ignore_patterns(*NOT_RUN)
#: Where `finish_layer.py` expects a layer's files.
_TASK_ROOT = Path("var", "task")
#: The first time that a zip can hold.
_TIME = (1980, 1, 1, 0, 0, 0)
#: A regular file that everyone may read, as Unix stores it in the upper half of the attributes.
#: Lambda starts no program of the function, so none is executable.
_MODE = 0o100644 << 16
_UNIX = 3
#: Lambda's Amazon Linux 2023 has glibc 2.34. pip takes only the named platforms, not older ones.
_PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
_REQUIREMENT = re.compile(r"^[a-z0-9].*?(?=^[a-z0-9]|\Z)", re.MULTILINE | re.DOTALL)
#: The folders in a wheel's `.data` that belong to the import path; others are scripts and headers.
#: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
_IMPORTED = ("purelib", "platlib")
#: Such as `3.13`.
VERSION = (Path(__file__).parents[1] / ".python-version").read_text(encoding="utf-8").strip()
_ASK = "import sys; print(sys.implementation.name, *sys.version_info[:2])"
_ANSWER = " ".join(("cpython", *VERSION.split(".")))


def write_zip(parts: Mapping[str, Path], archive: Path) -> None:
    """Write a function's zip: entries sorted by path, with fixed times and modes.

    Another zlib may compress the same content to other bytes. Each part is a folder with a part of
    `/var/task`; `artifact` and `index` are folders of it.

    Raises:
        ZipError: Lambda would not unpack it; the message has the size of each part.
    """
    files: dict[PurePosixPath, Path] = {}
    sizes = dict.fromkeys(parts, 0)
    for name, folder in parts.items():
        below = PurePosixPath(name) if name in {"artifact", "index"} else PurePosixPath()
        for file in filter(Path.is_file, folder.rglob("*")):
            files[below / file.relative_to(folder).as_posix()] = file
            sizes[name] += file.stat().st_size
    total = sum(sizes.values())
    if total > LIMIT_BYTES:
        listed = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.items())
        raise ZipError(
            f"Lambda unpacks a zip of up to {LIMIT_BYTES / 1e6:.1f} MB; "
            f"found: {total / 1e6:.1f} MB ({listed}); allowed: a smaller model, "
            'precision = "int8", or under [function] artifact = "s3" or package = "image"'
        )
    with zipfile.ZipFile(archive, "x", zipfile.ZIP_DEFLATED, compresslevel=9) as output:
        for path, file in sorted(files.items()):
            entry = zipfile.ZipInfo(str(path), _TIME)
            entry.create_system, entry.external_attr = _UNIX, _MODE
            entry.compress_type = zipfile.ZIP_DEFLATED
            output.writestr(entry, file.read_bytes())


def build_dependencies(*, recipe: Path, cache: Path, machine: str, with_tokenizers: bool) -> Path:
    """Return the folder of the packages that the code imports, with byte code."""
    listed = (recipe / "requirements.txt").read_text(encoding="utf-8")
    requirements = requirements_without(listed, [] if with_tokenizers else ["tokenizers"])
    wheels = cached(
        cache,
        f"wheels/{digest_of(requirements, machine)}",
        lambda folder: download_wheels(requirements, machine=machine, folder=folder),
    )

    def build(layer: Path) -> None:
        for wheel in sorted(wheels.glob("*.whl")):
            unpack_wheel(wheel, layer / _TASK_ROOT)
        _finish(layer, recipe, "--remove-listed", str(recipe / "unused-files.txt"))

    made_by = [recipe / "unused-files.txt", recipe / "finish_layer.py"]
    name = digest_of(requirements, machine, *made_by)
    return cached(cache, f"dependencies/{name}", build) / _TASK_ROOT


def build_code(folder: Path, *, recipe: Path, machine: str) -> Path:
    """Copy the code into a folder, with byte code, and return the part of `/var/task`."""
    for package in _CODE:
        shutil.copytree(recipe / package, folder / _TASK_ROOT / package, ignore=_LEFT_OUT)
    shutil.copy(recipe / "jobs" / "__init__.py", folder / _TASK_ROOT / "jobs")
    for library in list(folder.rglob("*.so")):
        if not library.match(f"*.{machine}.so"):
            library.unlink()
    _finish(folder, recipe)
    return folder / _TASK_ROOT


def _finish(layer: Path, recipe: Path, *arguments: str) -> None:
    command = [find_python(), "-I", str(recipe / "finish_layer.py"), str(layer), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise ZipError(f"finish_layer.py failed:\n{(done.stdout + done.stderr).strip()[-2000:]}")


def requirements_without(text: str, left_out: Iterable[str]) -> str:
    """Return a requirements file without some packages."""
    blocks: list[str] = _REQUIREMENT.findall(text)
    return "".join(block for block in blocks if block.partition("==")[0] not in {*left_out})


def download_wheels(requirements: str, *, machine: str, folder: Path) -> None:
    """Download wheels of pinned packages with pip, from the index that it is configured for."""
    folder.mkdir()
    listed = folder.with_name("requirements.txt")
    listed.write_text(requirements, encoding="utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--require-hashes", "--dest", str(folder)]
    command += ["--implementation", "cp", "--python-version", VERSION]
    for platform in _PLATFORMS:
        command += ["--platform", f"{platform}_{machine}"]
    done = subprocess.run(  # noqa: S603 - pip, with arguments of ours
        [*command, "--requirement", str(listed)],
        stdout=sys.stderr,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = "\n".join(done.stderr.strip().splitlines()[-8:])
        raise ZipError(f"the packages of requirements.txt could not be downloaded:\n{reason}")


def unpack_wheel(wheel: Path, folder: Path) -> None:
    """Unpack what a wheel puts on the import path, without its scripts and headers."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            components = PurePosixPath(name).parts
            if components[0].endswith(".data"):
                if len(components) < 3 or components[1] not in _IMPORTED:
                    continue
                components = components[2:]
            if name.endswith("/"):
                continue
            path = folder.joinpath(*components)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(name))


def find_python() -> str:
    """Return the path of the CPython that compiles byte code, of the version of Lambda's runtime.

    It is this process's, an installed one, or one uv installs. Without byte code, Lambda would
    compile every module again at each cold start, because it cannot write next to the code.
    """
    problems: list[str] = []
    for candidate in _candidates(problems):
        if _is_target(candidate):
            return candidate
    uv_failures = "".join(f", and uv cannot install it: {problem}" for problem in problems)
    raise ZipError(
        f"Python {VERSION} is needed to compile the byte code of Lambda's Python {VERSION}; "
        f"found: Python {sys.version.split()[0]} only{uv_failures}; allowed: python{VERSION} on "
        f"the PATH, such as after `uv python install {VERSION}` or from your system's packages"
    )


def _candidates(problems: list[str]) -> Iterator[str]:
    """Yield programs that may be it, the most likely first; uv downloads only as the last.

    If uv cannot install one, its reason is added to `problems`.
    """
    yield sys.executable
    if program := shutil.which(f"python{VERSION}"):
        yield program
    for versions in _pyenv_versions():
        yield from map(str, sorted(versions.glob(f"{VERSION}.*/bin/python"), reverse=True))
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        return
    for command in ("find", "install"):
        if command == "install":
            install = [uv, "python", "install", "--no-progress", VERSION]
            done = subprocess.run(install, capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode != 0:
                problems.append(" ".join(done.stderr.split()) or f"status {done.returncode}")
                return
        find = [uv, "python", "find", "--managed-python", "--no-python-downloads", VERSION]
        done = subprocess.run(find, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode == 0:
            yield done.stdout.strip()


def _pyenv_versions() -> list[Path]:
    """Return the folders in which pyenv may have its versions: that of this process's Python too.

    In a job with another environment, neither `PYENV_ROOT` nor `HOME` has to name it.
    """
    root = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser()
    return [root / "versions", Path(sys.base_prefix).parent]


def _is_target(program: str) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - a Python of this machine
            [program, "-I", "-c", _ASK], capture_output=True, text=True, check=False
        )
    except OSError:
        return False
    return done.stdout.strip() == _ANSWER
