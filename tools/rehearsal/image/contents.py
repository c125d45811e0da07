"""Rules about the files of the image's own layers, and their sizes."""

import _imp
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from tools.rehearsal.image.layers import LARGE_BYTES, File, Layer

__all__ = [
    "TASK",
    "bytecode_faults",
    "copies",
    "kinds",
    "leftovers",
    "sizes",
    "unloaded",
    "unreadable",
]

TASK = PurePosixPath("/var/task")

_KINDS = {
    "artifact": "model",
    "index": "model",
    "embedder": "code",
    "jobs": "code",
}

#: Path patterns of files that only a build needs, with their kind.
_LEFTOVERS = (
    (re.compile(r"/(\.cache|pip-cache|\.npm)(/|$)|\.whl$"), "package cache"),
    (re.compile(r"/(test|tests|testing/tests)/|/(test_[^/]*|conftest)\.py$"), "tests"),
    (re.compile(r"^/var/task/(pip|setuptools|wheel|ensurepip)(/|-)"), "installer"),
    (
        re.compile(r"/(gcc|g\+\+|cc|clang|ld|make|cmake)$|\.(c|cc|cpp|pyx|pxd|h|hpp|o|a)$"),
        "compiler or sources",
    ),
    (
        re.compile(r"^/var/task/(model_compiler|onnx|safetensors|huggingface_hub|ml_dtypes)(/|-)"),
        "model compiler",
    ),
    (re.compile(r"^/(tmp|root|build|var/tmp|usr/local/src)/"), "build stage"),
    (re.compile(r"\.safetensors$|(^|/)(pytorch_model\.bin)$"), "model source"),
    # The Python module contains the engine. `libonnxruntime_providers_shared.so` does not match.
    (re.compile(r"/libonnxruntime\.so(\.|$)"), "second copy of ONNX Runtime"),
)

#: Large libraries that not every start loads: `tokenizers` is for models whose tokenizer has no
#: tables, and `_simd` is for numpy's tests.
_NOT_EVERY_START = re.compile(r"^/var/task/(tokenizers/|numpy/_core/_simd\.)")

#: PEP 552: flags of a hash-based file that is never checked against its source.
_UNCHECKED_HASH = 0b01
_SOURCE_HASH_KEY_BYTES = 4


def kinds(layers: Sequence[Layer]) -> list[str]:
    """Return the kind of each layer: dependencies, model, code, or several of them."""
    names = []
    for layer in layers:
        found = {_kind(file.path) for file in layer.files}
        names.append(" and ".join(sorted(found)) or "nothing")
    return names


def _kind(path: PurePosixPath) -> str:
    if not path.is_relative_to(TASK):
        return f"outside {TASK}"
    return _KINDS.get(path.relative_to(TASK).parts[0], "dependencies")


def sizes(layers: Sequence[Layer]) -> dict[str, dict[str, int]]:
    """Add up the unpacked bytes: kind of content → top folder → bytes, the largest first."""
    found: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for layer in layers:
        for file in layer.files:
            top = (
                file.path.relative_to(TASK).parts[0]
                if file.path.is_relative_to(TASK)
                else str(file.path)
            )
            found[_kind(file.path)][top] += file.size
    return {
        kind: dict(sorted(tops.items(), key=lambda item: -item[1])) for kind, tops in found.items()
    }


def leftovers(files: Iterable[File]) -> Iterator[tuple[str, PurePosixPath]]:
    """Find files that only a build needs; return the kind and path of each."""
    for file in files:
        for pattern, kind in _LEFTOVERS:
            if pattern.search(str(file.path)):
                yield kind, file.path
                break


def copies(files: Iterable[File]) -> list[tuple[PurePosixPath, ...]]:
    """Find large files with equal content; return the sorted paths of each group."""
    groups: defaultdict[str, set[PurePosixPath]] = defaultdict(set)
    for file in files:
        if file.digest:
            groups[file.digest].add(file.path)
    return sorted(tuple(sorted(paths)) for paths in groups.values() if len(paths) > 1)


def unloaded(files: Iterable[File], loaded: Iterable[PurePosixPath]) -> list[PurePosixPath]:
    """Find large shared libraries that a start does not load, except the known optional ones.

    Args:
        files: The files of the image's own layers.
        loaded: The files that a process had mapped once it had answered a request.
    """
    mapped = set(loaded)
    return sorted(
        file.path
        for file in files
        if file.size >= LARGE_BYTES
        and re.search(r"\.so(\.|$)", file.path.name)
        and file.path not in mapped
        and not _NOT_EVERY_START.search(str(file.path))
    )


def unreadable(files: Iterable[File]) -> Iterator[PurePosixPath]:
    """Find files that Lambda's user, who owns no file, cannot read."""
    return (file.path for file in files if not file.mode & 0o004)


def bytecode_faults(
    contents: Mapping[PurePosixPath, bytes], *, tag: str, magic: bytes
) -> Iterator[tuple[PurePosixPath, str]]:
    """Find modules that the image's Python would compile again, with the reason.

    Args:
        contents: Every file under the import path: `.py` and `.pyc`.
        tag: The cache tag of the image's Python, such as `cpython-313`.
        magic: Its magic number, four bytes.
    """
    for path, source in contents.items():
        if path.suffix != ".py":
            continue
        compiled = contents.get(path.parent / "__pycache__" / f"{path.stem}.{tag}.pyc")
        if compiled is None:
            yield path, "no byte code"
        elif compiled[:4] != magic:
            yield path, "byte code of another Python"
        elif int.from_bytes(compiled[4:8], "little") != _UNCHECKED_HASH:
            yield path, "byte code that is checked against its source at every import"
        elif compiled[8:16] != _source_hash(magic, source):
            yield path, "byte code of another source"


def _source_hash(magic: bytes, source: bytes) -> bytes:
    """Return PEP 552's hash, as `importlib.util.source_hash` does, for another magic number."""
    key = int.from_bytes(magic[:_SOURCE_HASH_KEY_BYTES], "little")
    hashed: bytes = _imp.source_hash(key, source)
    return hashed
