"""Reads the list of modules of a sentence-transformers folder, `modules.json`."""

from pathlib import Path
from typing import Any

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import inner_path, read_json
from model_compiler.files.harmless import harmless

__all__ = ["read_modules"]

#: The keys of a module that are read.
KEYS = frozenset({"kwargs", "name", "path", "type"})


def read_modules(folder: Path) -> list[tuple[str, Path]]:
    """Return the class name and the folder of each module.

    Raises:
        SourceError: If the folder has no such list, or a path leaves the folder.
        UnsupportedModelError: If a module is not one of sentence-transformers, or has arguments or
            settings of its own.
    """
    path = folder / "modules.json"
    if not path.exists():
        raise SourceError(
            f"{folder} is not a sentence-transformers folder: it has no modules.json. "
            f"Found {_listing(folder)}."
        )
    modules = read_json(path)
    if not isinstance(modules, list) or not all(_is_module(module) for module in modules):
        raise SourceError(f"{path} must list modules, each with a type and a path.")
    names = [str(module["name"]) for module in modules if "name" in module]
    if len(set(names)) < len(names):
        raise UnsupportedModelError(
            f"{path}: each module must have a name of its own, because sentence-transformers "
            f"replaces a module by the next one of its name; found {', '.join(names)}."
        )
    return [_module(folder, path, module) for module in modules]


def _is_module(module: Any) -> bool:
    return (
        isinstance(module, dict)
        and isinstance(module.get("type"), str)
        and isinstance(module.get("path"), str)
    )


def _module(folder: Path, path: Path, module: dict[str, Any]) -> tuple[str, Path]:
    package, _, kind = module["type"].rpartition(".")
    if package.partition(".")[0] != "sentence_transformers":
        raise UnsupportedModelError(
            f"{path} asks for the module {module['type']!r}, which is not one of "
            "sentence-transformers. It is code of the model's own, for which sentence-transformers "
            "needs trust_remote_code; the compiler never runs such code."
        )
    if unknown := sorted(set(module) - KEYS - harmless("modules.json")):
        raise UnsupportedModelError(
            f"{path}: the module {kind} has settings that the compiler does not know: "
            f"{', '.join(unknown)}."
        )
    if module.get("kwargs"):
        raise UnsupportedModelError(
            f"{path}: the module {kind} takes the arguments {module['kwargs']} at run time, "
            "which the compiler cannot express."
        )
    return kind, inner_path(folder, module["path"], where=path)


def _listing(folder: Path) -> str:
    names = sorted(path.name for path in folder.iterdir())
    return (", ".join(names[:8]) or "an empty folder") + (", ..." if len(names) > 8 else "")
