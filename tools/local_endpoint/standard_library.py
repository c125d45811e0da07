"""The docstrings of Python's standard library, which the demo searches."""

import importlib
import inspect
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress

#: Modules that do more than to define names when they are imported, or are not documented.
_LEFT_OUT = {"antigravity", "idlelib", "lib2to3", "this", "turtledemo"}


def standard_library() -> list[str]:
    """Return `name: docstring` for the public classes and functions, in alphabetical order.

    Only the first paragraph of a docstring is used, as one line. A text that documents two names
    appears once.
    """
    names: dict[str, str] = {}
    for module in sorted(sys.stdlib_module_names - _LEFT_OUT):
        # Some need libraries of the system, and some are deprecated.
        if not module.startswith("_"):
            with suppress(ImportError), warnings.catch_warnings(action="ignore"):
                for name, text in _documented(module, importlib.import_module(module)):
                    names.setdefault(text, f"{name}: {text}")
    return sorted(names.values())


def _documented(parent: str, owner: object) -> Iterator[tuple[str, str]]:
    """Yield the documented names of a module or a class, and of the classes in it."""
    for name, value in sorted(vars(owner).items()):
        # Parts in C are modules of a private name.
        module = (getattr(value, "__module__", None) or parent).partition(".")[0].lstrip("_")
        if name.startswith("_") or not callable(value) or module != parent.partition(".")[0]:
            continue
        paragraphs = [
            " ".join(text.split()) for text in (inspect.getdoc(value) or "").split("\n\n")
        ]
        if len(paragraphs) > 1 and " -> " in paragraphs[0]:  # a signature
            del paragraphs[0]
        if paragraphs[0]:
            yield f"{parent}.{name}", paragraphs[0]
        if inspect.isclass(value):
            yield from _documented(f"{parent}.{name}", value)
