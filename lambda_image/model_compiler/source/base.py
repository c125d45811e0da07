"""Puts an adapter that was saved alone and the files of its base into one folder."""

import re
from pathlib import Path

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.adapter import ADAPTER_FILE, ADAPTER_WEIGHTS
from model_compiler.files.config import ConfigFile
from model_compiler.model.folder import encoder_folder_of
from model_compiler.source.linked import files_in, linked_folder

COMMIT = re.compile(r"[0-9a-f]{40}")
#: The files of an encoder that an adapter does not have.
ENCODER_FILES = re.compile(r"config\.json|.*\.safetensors|.*\.safetensors\.index\.json|.*\.bin")
#: What a text's ids come from. peft saves no tokenizer, but some trainers save it next to an
#: adapter.
TOKENIZERS = ("tokenizer.json", "vocab.txt")


def adapter_alone(folder: Path) -> Path | None:
    """Return the path of an adapter that has no base next to it; None without one."""
    found = folder.rglob(ADAPTER_FILE)
    return next((path for path in found if not (path.parent / "config.json").exists()), None)


def base_of(adapter: Path) -> tuple[str, str | None]:
    """Return the name of an adapter's base, or the path of its folder, and its revision."""
    config = ConfigFile(adapter)
    name, revision = config.string("base_model_name_or_path"), config.optional("revision")
    inside = adapter.parent / name
    return (str(inside) if inside.is_dir() else name), revision


def check_base(adapter: Path, name: str, commit: str | None, revision: str | None) -> None:
    """Check that a base is pinned: an adapter on another commit gives other vectors.

    `commit` is the one that the catalog pins, and `revision` what the adapter states.
    """
    stated = revision or commit
    if not isinstance(stated, str) or not COMMIT.fullmatch(stated):
        raise SourceError(
            f"{adapter}: revision must be the commit of the base {name}, of 40 hexadecimal digits, "
            f"because the catalog pins none; found {stated!r}. Or copy config.json and "
            "*.safetensors of the base next to the adapter."
        )


def on_base(folder: Path, adapter: Path, base: Path) -> Path:
    """Return a folder of an adapter on its base.

    A folder of sentence-transformers keeps its modules, tokenizer and prompts, and takes its
    encoder from the base. peft's own has the adapter alone; all else is the base's.
    """
    if next(base.rglob(ADAPTER_FILE), None):
        raise UnsupportedModelError(f"{base}, the base of {adapter}, has an adapter itself.")
    encoder = encoder_folder_of(base)
    parts = {
        name: path for name, path in files_in(encoder).items() if ENCODER_FILES.fullmatch(name)
    }
    inside = adapter.parent.relative_to(folder)
    if (folder / "modules.json").exists():
        return linked_folder(files_in(folder) | _moved(parts, inside))
    for name in TOKENIZERS:
        own, other = adapter.parent / name, encoder / name
        if own.exists() and own.read_bytes() != (other.read_bytes() if other.exists() else b""):
            raise SourceError(
                f"{own} must be {other}, because {folder} has no modules.json and is read as an "
                "adapter alone. Save the whole model: SentenceTransformer(...).save(FOLDER)."
            )
    own_files = {name: adapter.parent / name for name in (ADAPTER_FILE, ADAPTER_WEIGHTS)}
    there = {name: path for name, path in own_files.items() if path.exists()}
    return linked_folder(files_in(base) | _moved(there, encoder.relative_to(base)))


def _moved(files: dict[str, Path], folder: Path) -> dict[str, Path]:
    return {(folder / name).as_posix(): path for name, path in files.items()}
