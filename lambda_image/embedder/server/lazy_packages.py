"""Imported before the server's other modules: libraries of which a start needs only some modules.

The package of uvicorn imports its command line, and that of prometheus_client its HTTP servers:
together 80 ms of processor time, of 380 of a start. Here the code of each package runs only when
something is asked for that is in none of its modules. So their modules can be imported without it,
and everything else of them is still there.
"""

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any

__all__: list[str] = []

#: Package → what its own modules import from it → the module that has it.
_PACKAGES = {
    "uvicorn": {"Config": "uvicorn.config"},
    "prometheus_client": {"values": "prometheus_client.values"},
}


class _Package(ModuleType):
    """A package whose own code has not run."""

    def __getattr__(self, name: str) -> Any:
        where = _PACKAGES[self.__name__].get(name)
        if where is None:
            self.__class__ = ModuleType  # type: ignore[assignment]
            assert self.__spec__ is not None  # noqa: S101 - `_defer` has set it
            assert self.__spec__.loader is not None  # noqa: S101
            self.__spec__.loader.exec_module(self)
            return getattr(self, name)
        module = importlib.import_module(where)
        return module if where == f"{self.__name__}.{name}" else getattr(module, name)


def _defer(name: str) -> None:
    spec = importlib.util.find_spec(name)
    if name in sys.modules or spec is None:
        return
    package = importlib.util.module_from_spec(spec)
    package.__class__ = _Package
    sys.modules[name] = package


for _name in _PACKAGES:
    _defer(_name)
