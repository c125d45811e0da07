"""Builds the library of ONNX Runtime's operators from C: `scripts/build-operators`.

Zig's C compiler, a package of PyPI, builds for both processors on any machine, to the same bytes.
The libraries are in the repository, so whoever builds an image or a zip needs no compiler.
"""

import argparse
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from tools.pinned_environment import pinned_environment

_IMAGE = Path(__file__).parents[1] / "lambda_image"
SOURCES = _IMAGE / "operators"
LIBRARIES = _IMAGE / "embedder" / "core"
#: Processor → the kernels' names, as the sources define them, with what the compiler may use.
KERNELS = {
    "x86_64": {"VNNI": "x86_64_v4+avx512vnni"},
    "aarch64": {"DOT": "generic+dotprod", "I8MM": "generic+dotprod+i8mm"},
}
#: No multiplication and addition become one rounding unless the source says so: every kernel has
#: the same bits.
_OPTIONS = ["-std=gnu11", "-O3", "-fPIC", "-fvisibility=hidden"]
_OPTIONS += ["-ffp-contract=off", "-fno-math-errno"]
_WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-function", "-Werror"]
#: The wheels of ONNX Runtime need this glibc, too.
_GLIBC = "2.28"


def library_name(processor: str) -> str:
    """Return the name of a processor's library."""
    return f"operators.{processor}.so"


def source_digest() -> str:
    """Return the SHA-256 of the sources and of how they are built; each library contains it."""
    digest = hashlib.sha256(_pins().read_bytes() + repr((KERNELS, _OPTIONS, _GLIBC)).encode())
    for source in sorted(SOURCES.glob("*.[ch]")):
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()


def build(folder: Path) -> None:
    """Write both libraries into a folder."""
    python = pinned_environment("zig", _pins())
    for processor, kernels in KERNELS.items():
        compile_c = [str(python), "-m", "ziglang", "cc", "-target"]
        compile_c += [f"{processor}-linux-gnu.{_GLIBC}", *_OPTIONS, *_WARNINGS]
        with tempfile.TemporaryDirectory() as name:
            # Nothing of an earlier build, and nothing left in the user's folder.
            cache = {f"ZIG_{scope}_CACHE_DIR": name for scope in ("GLOBAL", "LOCAL")}
            objects: list[str] = []
            for source, *options in [
                ("plain.c",),
                ("linear.c",),
                ("attention.c",),
                ("operator.c", f'-DSOURCES="{source_digest()}"'),
                *(("tile.c", f"-D{kernel}", f"-mcpu={cpu}") for kernel, cpu in kernels.items()),
            ]:
                objects.append(f"{name}/{len(objects)}.o")
                # A relative path: no path of this machine is in the library.
                _run(*compile_c, *options, "-c", source, "-o", objects[-1], variables=cache)
            library = str(folder.resolve() / library_name(processor))
            link = ["-shared", "-s", "-Wl,-z,defs", *objects, "-lm", "-o", library]
            _run(*compile_c, *link, variables=cache)


def _pins() -> Path:
    return Path(__file__).with_name("operators.txt")


def _run(*command: str, variables: dict[str, str]) -> None:
    subprocess.run(command, cwd=SOURCES, env=os.environ | variables, check=True)  # noqa: S603 - the compiler of the pins


def main() -> None:
    """Build both libraries, by default those of the repository."""
    parser = argparse.ArgumentParser(prog="scripts/build-operators", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=LIBRARIES, help="where to write")
    build(parser.parse_args().folder)


if __name__ == "__main__":
    main()
