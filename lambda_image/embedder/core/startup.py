"""Imported before everything else by Lambda's entry: what makes the other imports cheap.

In milliseconds of processor time, of some 160 of a whole start of EmbeddingGemma:

- No garbage is collected until the start is over, when the entry turns that on again (9). A start
  makes objects and drops few; looking through them again and again finds nothing.
- numpy is imported without its docstrings and without the types that only type checkers read (8).
- The heap that the imports fill is backed by large pages (4).
"""

import gc
import sys
from types import ModuleType

from embedder.core.huge_pages import back_heap_with_huge_pages

__all__: list[str] = []

#: What Python, numpy and ONNX Runtime allocate while they are imported, a little rounded up.
_IMPORTS_BYTES = 16 << 20
#: The first two attach a text to each of numpy's functions and do nothing else.
_UNREAD = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars", "numpy._typing")


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return list  # accepts any subscript, as types do


def _import_numpy() -> None:
    """Import numpy without these modules; importing one of them later gives the real one."""
    if "numpy" in sys.modules:
        return
    for name in _UNREAD:
        sys.modules[name] = _StandIn(name)
    try:
        import numpy  # noqa: F401, PLC0415 - for its effect
    finally:
        for name in _UNREAD:
            del sys.modules[name]


gc.disable()
back_heap_with_huge_pages(_IMPORTS_BYTES)
_import_numpy()
