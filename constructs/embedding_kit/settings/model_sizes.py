"""The expected size of a model's artifact, which is exact only once the model is compiled.

`docs/generate.py` writes the sizes of the catalog's models, for the constructs cannot import the
compiler: synth does not need its dependencies. The weights of a model's own folder are counted in
its files.
"""

import json
from math import prod
from pathlib import Path

from embedding_kit.settings.model import Model, ModelSource, catalog_table

_FILE = Path(__file__).with_name("model_sizes.json")
#: A weight takes a byte in int8; its scales and the tokenizer's tables are a few percent.
_FP32 = 4


def artifact_bytes(model: Model) -> int | None:
    """Return the bytes that a function's artifacts take, to a few percent; None if unknown."""
    sizes = [_bytes_of(source) for source in model.sources]
    return None if None in sizes else sum(size or 0 for size in sizes)


def _bytes_of(source: ModelSource) -> int | None:
    if source.folder is not None:
        route = source.route if isinstance(source, Model) else None
        return _bytes_of_folders(_served(source.folder, route), source.precision)
    megabytes: float | None = catalog_table(_FILE).get(source.name.lower())
    if megabytes is None:
        return None
    return round(megabytes * 1e6 * (_FP32 if source.precision == "fp32" else 1))


def _served(folder: Path, route: str | None) -> list[Path]:
    """Return the folders of what is served: the whole model, or the modules of a Router's route."""
    if route is None:
        return [folder]
    try:
        router = json.loads((folder / "router_config.json").read_text("utf-8"))
        return [folder / name for name in router["structure"][route]]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # the compiler says what is wrong with it


def _bytes_of_folders(folders: list[Path], precision: str | None) -> int | None:
    weights = sum(_weights(file) for each in folders for file in each.rglob("*.safetensors"))
    if weights:
        return weights * (_FP32 if precision == "fp32" else 1)
    # An export is served as it is. Several are of other precisions, and one of them is taken.
    exports = [file for each in folders for file in each.rglob("*.onnx*")]
    models = [file for file in exports if file.suffix == ".onnx"]
    return sum(file.stat().st_size for file in exports) if len(models) == 1 else None


def _weights(file: Path) -> int:
    """Count the weights of a file by its header: 8 bytes of length, then JSON."""
    try:
        with file.open("rb") as content:
            header = json.loads(content.read(int.from_bytes(content.read(8), "little")))
        return sum(prod(entry["shape"]) for name, entry in header.items() if name[:2] != "__")
    except (ValueError, KeyError, TypeError, AttributeError, MemoryError, OverflowError):
        return 0  # the compiler says what is wrong with it
