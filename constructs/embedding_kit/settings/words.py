"""Says in words what a setting allows: for the errors, and for the table in the docs."""

import json
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from embedding_kit.settings.base import allowed

__all__ = ["Place", "annotation_of", "find", "item_of", "tables", "words"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN = {bool: "true or false", str: "text", Path: "a path"}
_NUMBERS = {int: "a whole number", float: "a number"}


class Place:
    """A setting found by following an error's location.

    Attributes:
        key: The setting's dotted name, as a TOML file would write it.
        annotation: Its type, with what is attached to it, or None where there is no such setting.
        siblings: The names that are known where it stands.
    """

    def __init__(self, key: str, annotation: Any, siblings: tuple[str, ...]) -> None:
        self.key = key
        self.annotation = annotation
        self.siblings = siblings


def find(model: type[BaseModel], location: tuple[str | int, ...]) -> Place:
    """Follow a pydantic error's location from `model` to the setting that it means."""
    key = ""
    annotation: Any = model
    siblings: tuple[str, ...] = ()
    for part in location:
        annotation = _bare(annotation)
        members = tables(annotation)
        if isinstance(part, int):
            key, annotation = f"{key}[{part}]", item_of(annotation)
        elif part in members and len(members) > 1:
            annotation = members[part]  # the tag of a union: no key of the file
        elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
            fields = annotation.model_fields
            siblings = tuple(fields)
            key = f"{key}.{_key(part)}" if key else _key(part)
            annotation = annotation_of(fields[part]) if part in fields else None
        else:
            key = f"{key}.{_key(part)}" if key else _key(part)
            annotation = item_of(annotation)
    return Place(key, annotation, siblings)


def tables(annotation: Any) -> dict[str, type[BaseModel]]:
    """List the groups of settings that a type stands for: by `kind` for a union, else under ""."""
    annotation = _bare(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {"": annotation}
    found = {}
    for member in _members(annotation):
        if isinstance(member, type) and issubclass(member, BaseModel):
            found[str(member.model_fields["kind"].default)] = member
    return found


def words(annotation: Any) -> str:
    """Say what a type, with the bounds attached to it, allows."""
    attached = list(_attached(annotation))
    said = next((item.words for item in attached if isinstance(item, allowed)), None)
    return said or _words_of_type(_bare(annotation), attached)


def _words_of_type(bare: Any, attached: list[object]) -> str:
    if get_origin(bare) is Literal:
        return "one of " + ", ".join(f'"{value}"' for value in get_args(bare))
    if get_origin(bare) is tuple:
        return f"a list, each {words(item_of(bare))}"
    if get_origin(bare) is dict:
        return "a table of text"
    if bare in _NUMBERS:
        return _NUMBERS[bare] + _bounds(attached)
    kinds = [kind for kind in tables(bare) if kind]
    if kinds:
        return "one of " + ", ".join(f'"{kind}"' for kind in kinds)
    return _PLAIN.get(bare, "a table")


def _bounds(attached: list[object]) -> str:
    low = next((f"{b.ge}" for b in attached if isinstance(b, Ge)), None)
    high = next((f"{b.le}" for b in attached if isinstance(b, Le)), None)
    above = next((f"{b.gt}" for b in attached if isinstance(b, Gt)), None)
    below = next((f"{b.lt}" for b in attached if isinstance(b, Lt)), None)
    start = f" from {low}" if low else f" above {above}" if above else ""
    end = f" to {high}" if high else f" below {below}" if below else ""
    if start and not end:
        return f"{start} up" if low else start
    return start + (f" and{end}" if above and below else end)


def annotation_of(field: FieldInfo) -> Any:
    """Return a field's type with the bounds that stand beside it."""
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def _attached(annotation: Any) -> Iterator[object]:
    if get_origin(annotation) is Annotated:
        for item in annotation.__metadata__:
            yield from item.metadata if isinstance(item, FieldInfo) else [item]
        yield from _attached(get_args(annotation)[0])
    for member in _members(annotation):
        yield from _attached(member)


def _bare(annotation: Any) -> Any:
    """Strip what is attached, and the None of an optional type."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
            continue
        members = _members(annotation)
        if type(None) in members and len(members) == 2:
            annotation = next(member for member in members if member is not type(None))
            continue
        return annotation


def _key(name: str) -> str:
    """Write a key as TOML does: bare where it may be, else quoted."""
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _members(annotation: Any) -> tuple[Any, ...]:
    union = get_origin(annotation) in {Union, types.UnionType}
    return get_args(annotation) if union else ()


def item_of(annotation: Any) -> Any:
    """What a list or a table of text holds; None for anything else."""
    bare = _bare(annotation)
    arguments = get_args(bare)
    if get_origin(bare) is dict:
        return arguments[1]
    return arguments[0] if get_origin(bare) is tuple else None
