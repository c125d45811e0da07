"""Renews in a forked process what belongs to its parent: threads, connections and held locks."""

import os
from typing import Protocol
from weakref import WeakSet


class _Renewable(Protocol):
    def _renew(self) -> None:
        """Replace what the parent process uses too. Other threads do not exist yet."""


_objects: WeakSet[_Renewable] = WeakSet()


def renew_after_fork(thing: _Renewable) -> None:
    """Call `_renew` of an object in each child of `os.fork`, as long as the object lives."""
    _objects.add(thing)


def _renew_all() -> None:
    for thing in list(_objects):
        thing._renew()


os.register_at_fork(after_in_child=_renew_all)
