"""The expected size of a model's artifact, which is exact only once the model is compiled.

`docs/generate.py` writes the sizes of the catalog's models, for the constructs cannot import the
compiler: synth does not need its dependencies. The weights of a model's own folder are counted in
its files.
"""

import json
from functools import cache
from math import prod
from pathlib import Path

from embedding_kit.settings.model import Model

_FILE = Path(__file__).with_name("model_sizes.json")
#: A weight takes a byte in int8; its scales and the tokenizer's tables are a few percent.
_FP32 = 4


def artifact_bytes(model: Model) -> int | None:
    """Return the bytes that a model's artifact takes, to a few percent; None if unknown.

    Args:
        model: A model of the catalog, or one with a folder of its own.
    """
    if model.folder is not None:
        return _bytes_of_folder(model.folder, model.precision)
    megabytes = _table().get(model.name.lower())
    if megabytes is None:
        return None
    return round(megabytes * 1e6 * (_FP32 if model.precision == "fp32" else 1))


def _bytes_of_folder(folder: Path, precision: str | None) -> int | None:
    weights = sum(map(_weights, folder.rglob("*.safetensors")))
    if weights:
        return weights * (_FP32 if precision == "fp32" else 1)
    # An export is served as it is. Several are of other precisions, and one of them is taken.
    exports = [sum(file.stat().st_size for file in folder.rglob("*.onnx*"))]
    return exports[0] if len(list(folder.rglob("*.onnx"))) == 1 else None


def _weights(file: Path) -> int:
    """Count the weights of a file by its header: 8 bytes of length, then JSON."""
    try:
        with file.open("rb") as content:
            header = json.loads(content.read(int.from_bytes(content.read(8), "little")))
        return sum(prod(entry["shape"]) for name, entry in header.items() if name[:2] != "__")
    except (ValueError, KeyError, TypeError, AttributeError, MemoryError, OverflowError):
        return 0  # the compiler says what is wrong with it


@cache
def _table() -> dict[str, float]:
    listed = json.loads(_FILE.read_text(encoding="utf-8"))
    table = {name.lower(): float(size) for name, size in listed.items()}
    return {name.rpartition("/")[2]: size for name, size in table.items()} | table
