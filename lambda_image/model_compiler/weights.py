"""A model's weights: safetensors files, mapped and handed out as float32, each checked.

The format (https://github.com/huggingface/safetensors#format): eight bytes with the length of a
JSON header, the header (name to dtype, shape and place), then the tensors one after the other.
"""

import json
import math
import mmap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from model_compiler.config_file import read_json
from model_compiler.errors import SourceError, UnsupportedModelError

__all__ = ["Weights"]

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

#: The types that weights are stored in, in bytes. BF16 is the upper half of a float32.
WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where one tensor stands."""

    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


class Weights:
    """The tensors of one module's folder.

    Args:
        folder: holds `model.safetensors`, or several files with `model.safetensors.index.json`.
        progress: called with the number of bytes of each tensor that was read.

    Raises:
        SourceError: if a file is missing, cut short, or not what its header says.
    """

    def __init__(self, folder: Path, *, progress: Callable[[int], object] = lambda _: None) -> None:
        self._folder = folder
        self._progress = progress
        self._maps: dict[Path, mmap.mmap] = {}
        self._tensors: dict[str, StoredTensor] = {}
        for file in _files(folder):
            self._maps[file], tensors = _open(file)
            self._tensors.update(tensors)
        self._left = set(self._tensors)
        self._digest = sha256()

    @property
    def total_bytes(self) -> int:
        """How many bytes all tensors have together, as stored."""
        return sum(tensor.end - tensor.start for tensor in self._tensors.values())

    @property
    def digest(self) -> bytes:
        """A hash of the values that were taken, in the order in which they were."""
        return self._digest.digest()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def prefix(self, candidates: tuple[str, ...], name: str) -> str:
        """Return the first of the prefixes under which `name` is there.

        Raises:
            SourceError: if it is there under none.
        """
        for candidate in candidates:
            if candidate + name in self._tensors:
                return candidate
        raise SourceError(
            f"{self._folder} has no tensor {name!r} (nor with the prefix "
            f"{' or '.join(repr(prefix) for prefix in candidates if prefix)}); "
            f"found {_some(self._tensors)}."
        )

    def take(self, name: str, *shape: int) -> npt.NDArray[np.float32]:
        """Return a tensor as float32, and remember that it was used.

        Raises:
            SourceError: if it is missing, of another shape, or holds NaN or infinity.
        """
        stored = self._tensors.get(name)
        if stored is None:
            raise SourceError(
                f"{self._folder} has no tensor {name!r}; found {_some(self._tensors)}."
            )
        if stored.shape != shape:
            raise SourceError(
                f"{stored.file}: {name} has shape {list(stored.shape)}; "
                f"the model's configuration asks for {list(shape)}."
            )
        array = self._read(name, stored)
        if not np.isfinite(array).all():
            bad = array.size - int(np.isfinite(array).sum())
            raise SourceError(
                f"{stored.file}: {name} holds {bad} values that are NaN or infinite. "
                "The file is damaged, or the training went wrong."
            )
        self._left.discard(name)
        self._digest.update(array.data)
        self._progress(stored.end - stored.start)
        return array

    def ignore(self, *names: str) -> None:
        """Take tensors that do not matter; a name that ends in a dot stands for all below it."""
        self._left = {
            left
            for left in self._left
            if not any(
                left == name or (name.endswith(".") and left.startswith(name)) for name in names
            )
        }

    def done(self) -> None:
        """Refuse, by name, tensors that nobody used.

        Raises:
            UnsupportedModelError: if there are any.
        """
        if self._left:
            raise UnsupportedModelError(
                f"{self._folder} has tensors that the compiler has no use for: "
                f"{_some(self._left)}. They may change the vectors, so it does not go on."
            )

    def _read(self, name: str, stored: StoredTensor) -> npt.NDArray[np.float32]:
        raw = memoryview(self._maps[stored.file])[stored.start : stored.end]
        match stored.dtype:
            case "F32":
                array = np.frombuffer(raw, "<f4")
            case "F16":
                array = np.frombuffer(raw, "<f2").astype(np.float32)
            case "F64":
                with np.errstate(over="ignore"):  # what overflows is found as infinite
                    array = np.frombuffer(raw, "<f8").astype(np.float32)
            case "BF16":
                array = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
            case _:
                raise UnsupportedModelError(
                    f"{stored.file}: {name} is of type {stored.dtype}; "
                    f"the compiler reads {', '.join(WIDTHS)}."
                )
        return array.reshape(stored.shape)


def _files(folder: Path) -> list[Path]:
    index = folder / INDEX_FILE
    if (folder / SINGLE_FILE).exists() or not index.exists():
        return [folder / SINGLE_FILE]
    names = read_json(index)
    names = names.get("weight_map") if isinstance(names, dict) else None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise SourceError(f"{index} must hold a weight_map of tensor names to file names.")
    if any(Path(name).name != name for name in names.values()):
        raise SourceError(f"{index} names files outside its own folder.")
    return [folder / name for name in sorted(set(names.values()))]


def _open(path: Path) -> tuple[mmap.mmap, Mapping[str, StoredTensor]]:
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError as error:
        pickled = sorted(found.name for found in path.parent.glob("pytorch_model*.bin"))
        hint = (
            f" {pickled[0]} is a pickle, which the compiler does not open: save the model again "
            "with `safe_serialization=True`."
            if pickled
            else ""
        )
        raise SourceError(f"{path} is missing.{hint}") from error
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise SourceError(f"{path} cannot be read: {error}.") from error
    return mapped, _header(path, mapped)


def _header(path: Path, mapped: mmap.mmap) -> Mapping[str, StoredTensor]:
    size = len(mapped)
    length = int.from_bytes(mapped[:8], "little")
    if size < 8 or length > size - 8:
        raise SourceError(
            f"{path} is cut short or no safetensors file: its header should have {length} bytes, "
            f"the whole file has {size}."
        )
    try:
        header = json.loads(mapped[8 : 8 + length])
        tensors = {
            name: _stored(path, entry, offset=8 + length)
            for name, entry in header.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SourceError(f"{path} has no header of a safetensors file: {error!r}.") from error
    for name, stored in tensors.items():
        if stored.end > size:
            raise SourceError(
                f"{path} is cut short: {name} ends at byte {stored.end}, the file has {size}."
            )
        width = WIDTHS.get(stored.dtype)
        if width and stored.end - stored.start != math.prod(stored.shape) * width:
            raise SourceError(
                f"{path}: {name} has {stored.end - stored.start} bytes; {stored.dtype} "
                f"{list(stored.shape)} needs {math.prod(stored.shape) * width}."
            )
    return tensors


def _stored(path: Path, entry: Mapping[str, Any], *, offset: int) -> StoredTensor:
    start, end = (int(number) for number in entry["data_offsets"])
    shape = tuple(int(number) for number in entry["shape"])
    if not 0 <= start <= end or min(shape, default=0) < 0:
        raise ValueError(f"data_offsets {[start, end]}, shape {list(shape)}")
    return StoredTensor(path, str(entry["dtype"]), shape, offset + start, offset + end)


def _some(names: Mapping[str, Any] | set[str]) -> str:
    found = sorted(names)
    rest = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return (", ".join(found[:5]) or "none") + rest
