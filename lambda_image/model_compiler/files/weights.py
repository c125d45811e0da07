"""Reads a model's weights from safetensors files, tensor by tensor, as float32.

The `safetensors` library reads the files and checks their headers: the tensors must cover the file
from the header to its end, without a hole, an overlap or extra bytes
(https://github.com/huggingface/safetensors#format). This module also checks that each tensor has
the expected shape, is finite, and is used or known to change nothing (`Weights.done`).
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401 -- teaches numpy, and so safetensors, the type bfloat16
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import (
    NONE,
    conversion,
    read_json,
    require_file,
    weights_conversion,
)

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

#: The types of weights that are read, and their sizes in bytes.
WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
#: The types of ids.
INTEGERS = ("I32", "I64")

#: The newer names of a normalization's tensors.
GAINS = {"gamma": "weight", "beta": "bias"}

#: Explanations of some of the library's errors, by a part of their text.
MEANINGS = {
    "invalid offset": " The tensor overlaps another one, or there is a hole before it.",
    "not fully covered": " The file ends inside a tensor, or has bytes after its last one.",
}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor of a file, with its type by the name that safetensors has for it."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], npt.NDArray[Any]]

    @property
    def bytes(self) -> int:
        """The size as stored; 0 for a type that is not read."""
        return math.prod(self.shape) * WIDTHS.get(self.dtype, 0)


class Weights:
    """The tensors of one module's folder.

    It holds `model.safetensors`, or several files with `model.safetensors.index.json`, unless they
    are given in `tensors`. `progress` is called with the bytes of each tensor that was read.
    """

    def __init__(
        self,
        folder: Path,
        *,
        tensors: Mapping[str, StoredTensor] | None = None,
        progress: Callable[[int], object] = lambda _: None,
    ) -> None:
        #: The folder of the module.
        self.folder = folder
        self._progress = progress
        self._tensors = modern_names(stored_tensors(folder) if tensors is None else tensors)
        self._left = set(self._tensors)
        self._digest = sha256()

    @property
    def total_bytes(self) -> int:
        """The stored size of all tensors in bytes."""
        return sum(tensor.bytes for tensor in self._tensors.values())

    @property
    def digest(self) -> bytes:
        """A hash of the used values, in the order of use."""
        return self._digest.digest()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def prefix(self, candidates: tuple[str, ...], name: str) -> str:
        """Return the first of the prefixes with which `name` exists."""
        for candidate in candidates:
            if candidate + name in self._tensors:
                return candidate
        raise SourceError(
            f"{self.folder} has no tensor {name!r} (nor with the prefix "
            f"{' or '.join(repr(prefix) for prefix in candidates if prefix)}); "
            f"found {some(self._tensors)}."
        )

    def take(self, name: str, *shape: int) -> npt.NDArray[np.float32]:
        """Return a tensor of this shape as float32, with finite values, and mark it as used."""
        array = self.look_at(name, *shape)
        self._use(name, self._tensors[name], array)
        return array

    def look_at(self, name: str, *shape: int) -> npt.NDArray[np.float32]:
        """Return what `take` will return."""
        stored = self._tensor(name, shape)
        with np.errstate(over="ignore"):  # infinite values are rejected
            array = self._read(name, stored, WIDTHS).astype(np.float32, copy=False)
        if not np.isfinite(array).all():
            bad = array.size - int(np.isfinite(array).sum())
            raise SourceError(
                f"{stored.file}: {name} holds {bad} values that are NaN or infinite. "
                "The file is damaged, or the training went wrong."
            )
        return array

    def take_integers(self, name: str, *shape: int) -> npt.NDArray[np.int64]:
        """Return a tensor of integers and mark it as used."""
        stored = self._tensor(name, shape)
        array = self._read(name, stored, INTEGERS).astype(np.int64)
        self._use(name, stored, array)
        return array

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor; raises a SourceError if it is missing."""
        return self._tensor(name).shape

    def check_copy(self, name: str, original: str) -> None:
        """Check that a tensor, if it is stored, is equal to the one that the model shares."""
        if name not in self:
            return
        if not self._are_equal(name, original):
            raise UnsupportedModelError(
                f"{self.folder}: {name} must be equal to {original}, which the model shares: "
                "versions of transformers differ in which of two they take."
            )
        self._left.discard(name)

    def done(self, harmless: Mapping[str, str] = NONE) -> None:
        """Check that each tensor was used, is equal to one that was, or is harmless by its name.

        `harmless` has names by the reason, with `*` for any part of a name. A name with `*` covers
        a module; if a tensor of the module was used, its other tensors are not harmless.
        """
        used = self._tensors.keys() - self._left
        names = [
            name
            for names in harmless.values()
            for name in names.split()
            if not any(fnmatchcase(name_in_use, name) for name_in_use in used)
        ]
        unknown = [
            tensor
            for tensor in self._left
            if not any(fnmatchcase(tensor, name) for name in names)
            and not self._is_copy(tensor, used)
        ]
        if unknown:
            raise UnsupportedModelError(
                f"{self.folder} has tensors that the compiler does not use: "
                f"{some(unknown)}. They may change the vectors."
            )

    def _is_copy(self, name: str, used: Iterable[str]) -> bool:
        """Return whether a tensor is equal to one that was used, and not by chance, as zeros."""
        stored = self._tensors[name]
        shared = [
            twin
            for twin in used
            if self._tensors[twin].shape == stored.shape and self._tensors[twin].dtype in WIDTHS
        ]
        if stored.dtype not in WIDTHS or not shared:
            return False
        values = self._read(name, stored, WIDTHS).ravel()
        return bool((values != values[:1]).any()) and any(
            self._are_equal(name, twin) for twin in shared
        )

    def _are_equal(self, *names: str) -> bool:
        values, copied = (self._read(name, self._tensors[name], WIDTHS) for name in names)
        if values.dtype != copied.dtype:
            with np.errstate(over="ignore"):  # no tensor that is used is infinite
                values, copied = values.astype(np.float32), copied.astype(np.float32)
        return np.array_equal(values, copied)

    def _tensor(self, name: str, shape: tuple[int, ...] | None = None) -> StoredTensor:
        stored = self._tensors.get(name)
        if stored is None:
            raise SourceError(f"{self.folder} has no tensor {name!r}; found {some(self._tensors)}.")
        if shape is not None and stored.shape != shape:
            raise SourceError(
                f"{stored.file}: {name} has shape {list(stored.shape)}; "
                f"the model's configuration asks for {list(shape)}."
            )
        return stored

    def _read(self, name: str, stored: StoredTensor, types: Collection[str]) -> npt.NDArray[Any]:
        if stored.dtype not in types:
            raise UnsupportedModelError(
                f"{stored.file}: {name} is of type {stored.dtype}; "
                f"the compiler reads {', '.join(types)}."
            )
        try:
            array: npt.NDArray[Any] = stored.read()
        except (SafetensorError, OSError) as error:
            raise SourceError(f"{stored.file}: {name} cannot be read: {error}.") from error
        return array

    def _use(self, name: str, stored: StoredTensor, array: npt.NDArray[Any]) -> None:
        self._left.discard(name)
        self._digest.update(array.data)
        self._progress(stored.bytes)


def modern_names(tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Name gains and shifts of normalizations as transformers does, not TensorFlow."""
    renamed: dict[str, StoredTensor] = {}
    for name, tensor in tensors.items():
        path, _, parameter = name.rpartition(".")
        newer = f"{path}.{GAINS.get(parameter, parameter)}" if path else name
        renamed[name if newer in tensors else newer] = tensor
    return renamed


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a folder's safetensors files by name."""
    stored: dict[str, StoredTensor] = {}
    for file in _files(folder):
        tensors = open_tensors(file)
        twice = stored.keys() & tensors.keys()
        if twice:
            raise SourceError(f"{file} has tensors of another file of its model: {some(twice)}.")
        stored.update(tensors)
    return stored


def _files(folder: Path) -> list[Path]:
    index = folder / INDEX_FILE
    if (folder / SINGLE_FILE).exists() or not index.exists():
        return [folder / SINGLE_FILE]
    names = read_json(index)
    names = names.get("weight_map") if isinstance(names, dict) else None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise SourceError(f"{index} must hold a weight_map of tensor names to file names.")
    if any(Path(name).name != name or name == ".." or "\0" in name for name in names.values()):
        raise SourceError(f"{index} names files outside its own folder.")
    return [folder / name for name in sorted(set(names.values()))]


def open_tensors(path: Path) -> Mapping[str, StoredTensor]:
    """Open a file and return its tensors by name."""
    own = path.with_suffix(".bin")  # as an adapter of older versions of peft has it
    pickled = [own] if own.exists() else sorted(path.parent.glob("pytorch_model*.bin"))
    if pickled and not path.exists():
        raise SourceError(
            f"{path} is missing. {pickled[0].name} is a pickle, which can run any code and is "
            "never opened. Convert it with: "
            f"{conversion(own, path) if own.exists() else weights_conversion(path.parent)}"
        )
    require_file(path)
    try:
        # Not mapped: pages that were read once would stay in memory next to the copy.
        file: Any = safe_open(path, framework="np", backend="pread")
        _check_names(path)
    except SafetensorError as error:
        meaning = next((why for text, why in MEANINGS.items() if text in str(error)), "")
        raise SourceError(
            f"{path} is cut short, damaged or not a safetensors file: {error}.{meaning}"
        ) from error
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error}.") from error
    return {name: _stored(path, file, name) for name in file.keys()}  # noqa: SIM118


def _check_names(path: Path) -> None:
    """Check that no name occurs twice in the header; the library would use the last one."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        json.loads(file.read(length), object_pairs_hook=lambda pairs: _unique(path, pairs))


def _unique(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        raise SourceError(f"{path} is damaged: its header has {some(twice)} more than once.")
    return entries


def _stored(path: Path, file: Any, name: str) -> StoredTensor:
    tensor = file.get_slice(name)
    read = partial(file.get_tensor, name)
    return StoredTensor(path, str(tensor.get_dtype()), tuple(tensor.get_shape()), read)


def some(names: Iterable[str]) -> str:
    """Return the first of the names, sorted, and how many more there are."""
    ordered = sorted(names)
    suffix = f" and {len(ordered) - 5} more" if len(ordered) > 5 else ""
    return (", ".join(ordered[:5]) or "none") + suffix
