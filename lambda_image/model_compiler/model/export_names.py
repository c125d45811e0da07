"""Selects one of several ready ONNX exports by the precision in their names.

The names are those of optimum and sentence-transformers
(https://sbert.net/docs/sentence_transformer/usage/efficiency.html), and those of repositories for
transformers.js (https://huggingface.co/docs/transformers.js/guides/dtypes).
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

from model_compiler.errors import SourceError
from model_compiler.graph.quantization import Precision

__all__ = ["Choice", "Kind", "choose"]


class Kind(StrEnum):
    """The precision of an export."""

    FULL = "full precision"
    HALF = "half precision"
    EIGHT = "8 bits"
    FOUR = "4 bits"


#: Suffixes of `model` in a file's name, in order of preference. O1 to O3 are optimum's levels of
#: optimization; O4 also converts to float16. The image runs on ARM64, so its quantization is first.
NAMES = {
    Kind.FULL: ("", "_optimized", "_O1", "_O2", "_O3"),
    Kind.HALF: ("_fp16", "_float16", "_O4"),
    Kind.EIGHT: (
        "_qint8_arm64",
        "_quantized",
        "_int8",
        "_uint8",
        "_qint8",
        "_qint8_.+",
        "_quint8",
        "_quint8_.+",
    ),
    Kind.FOUR: ("_q4", "_q4f16", "_bnb4", "_int4", "_uint4"),
}
#: Folders in which exports are looked for.
FOLDERS = ("onnx", ".")

#: The order of preference of the kinds, by the requested precision.
ORDERS = {
    None: (Kind.FULL, Kind.HALF, Kind.EIGHT, Kind.FOUR),
    Precision.INT8: (Kind.EIGHT, Kind.FULL, Kind.HALF, Kind.FOUR),
    Precision.FP32: (Kind.FULL, Kind.HALF),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """An export, by its path in the model's folder."""

    name: str
    kind: Kind
    #: The full-precision export to compare with; None for a full-precision export or without one.
    reference: str | None


def choose(files: Collection[str], precision: Precision | None) -> Choice | None:
    """Select an export among the files of a model's folder; None if there are no exports.

    Args:
        files: Paths in the folder, with slashes.
        precision: The requested precision; None to prefer full precision.

    Raises:
        SourceError: If none has the requested precision.
    """
    found = {kind: name for kind in Kind if (name := _first(files, kind))}
    if not found:
        return None
    for kind in ORDERS[precision]:
        if kind in found:
            reference = None if kind is Kind.FULL else found.get(Kind.FULL)
            return Choice(found[kind], kind, reference)
    raise SourceError(
        f"The model's ready exports are quantized ({', '.join(found.values())}), and fp32 was "
        "requested. Request int8, or no precision, to use one of them."
    )


def _first(files: Collection[str], kind: Kind) -> str | None:
    for pattern in NAMES[kind]:
        for folder in FOLDERS:
            for name in sorted(files):
                path = PurePosixPath(name)
                if str(path.parent) == folder and re.fullmatch(rf"model{pattern}\.onnx", path.name):
                    return name
    return None
