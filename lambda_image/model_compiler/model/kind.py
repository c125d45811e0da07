"""Recognizes models that are not whole or no embedding models, so that the error can say so."""

from pathlib import Path

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile

__all__ = ["check_kind"]

#: The kinds of models of sentence-transformers, by `model_type` of its configuration, and why an
#: endpoint for embeddings cannot serve them.
OTHERS = {
    "CrossEncoder": "a cross-encoder: it scores pairs of texts and has no embeddings",
    "SparseEncoder": "a sparse encoder: its vectors have a weight for each token of a vocabulary",
}
CLASSIFIER = "ForSequenceClassification"
ADAPTER_FILE = "adapter_config.json"


def check_kind(folder: Path, *, name: str | None = None) -> None:
    """Check that a folder is not of another kind of model, and has no adapter.

    A cross-encoder of older versions has no modules.json, and a classifier's architecture.

    Args:
        folder: The folder.
        name: The model in the error; by default the folder.

    Raises:
        UnsupportedModelError: If it is; the message names the kind.
    """
    for adapter in (*folder.glob(ADAPTER_FILE), *folder.glob(f"0_*/{ADAPTER_FILE}")):
        raise UnsupportedModelError(
            f"{name or folder} has an adapter ({adapter.relative_to(folder)}), which changes the "
            "weights; the compiler reads whole weights. Merge it with peft's merge_and_unload(), "
            "and save the model again."
        )
    stated = _read(folder / "config_sentence_transformers.json", "model_type")
    kind = OTHERS.get(stated) if isinstance(stated, str) else None
    names = _read(folder / "config.json", "architectures")
    if not (folder / "modules.json").exists() and isinstance(names, list):
        is_classifier = any(isinstance(name, str) and name.endswith(CLASSIFIER) for name in names)
        kind = kind or (OTHERS["CrossEncoder"] if is_classifier else None)
    if kind:
        raise UnsupportedModelError(f"{name or folder} is {kind}.")


def _read(path: Path, key: str) -> object:
    """Return a value; None if it or the file is missing or damaged, which other readers report."""
    try:
        return ConfigFile(path).optional(key)
    except SourceError:
        return None
