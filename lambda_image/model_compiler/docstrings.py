"""The docstrings of Python's standard library, as texts for an example search index.

They are read from the sources without running them. Modules that are built into the interpreter
have no sources and are imported.
"""

import ast
import importlib
import inspect
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

__all__ = ["standard_library"]

#: Folders that are not part of the documented library.
LEFT_OUT = frozenset(
    {
        "__pycache__",
        "config",
        "ensurepip",
        "idlelib",
        "lib-dynload",
        "lib2to3",
        "pydoc_data",
        "site-packages",
        "test",
        "tests",
        "turtledemo",
    }
)


def standard_library() -> list[str]:
    """Return `name: docstring` for each public class and function, in alphabetical order.

    Only the first paragraph of a docstring is used, as one line. A text that documents two names
    appears once.
    """
    found: dict[str, str] = {}
    for name, text in sorted([*_from_sources(), *_from_interpreter()]):
        found.setdefault(text, f"{name}: {text}")
    return sorted(found.values())


def _from_sources() -> Iterator[tuple[str, str]]:
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        # Modules in C also have a version in Python under a private name, such as `_pydatetime`.
        parts = tuple(part.removeprefix("_py") for part in parts if part != "__init__")
        if any(part in LEFT_OUT or part.startswith(("_", "config-")) for part in parts):
            continue
        module = ".".join(parts)
        yield from _documented(module, ast.parse(path.read_bytes()).body)


def _documented(parent: str, nodes: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("_"):
            continue
        name = f"{parent}.{node.name}"
        text = _first_paragraph(ast.get_docstring(node))
        if text:
            yield name, text
        if isinstance(node, ast.ClassDef):
            yield from _documented(name, node.body)


def _from_interpreter() -> Iterator[tuple[str, str]]:
    for module_name in sys.builtin_module_names:
        if module_name.startswith("_"):
            continue
        with warnings.catch_warnings():
            # Some are deprecated and warn when they are imported.
            warnings.simplefilter("ignore", DeprecationWarning)
            module = importlib.import_module(module_name)
        for name, value in sorted(vars(module).items()):
            if name.startswith("_") or not (inspect.isbuiltin(value) or inspect.isclass(value)):
                continue
            text = _first_paragraph(inspect.getdoc(value), skip_signature=True)
            if text:
                yield f"{module_name}.{name}", text


def _first_paragraph(docstring: str | None, *, skip_signature: bool = False) -> str:
    paragraphs = [" ".join(part.split()) for part in (docstring or "").split("\n\n")]
    if skip_signature and len(paragraphs) > 1 and " -> " in paragraphs[0]:
        return paragraphs[1]
    return paragraphs[0]
