"""Replaces a function of MiniStack, and records resources that MiniStack cannot create."""

import copy
import functools
from collections.abc import Callable
from typing import Any

from ministack.core import responses
from ministack.services.cloudformation import provisioners

Properties = dict[str, Any]
Created = tuple[str, dict[str, str]]

#: CloudFormation's resource types: type → the functions that create, update and delete one.
HANDLERS: dict[str, dict[str, Any]] = provisioners._RESOURCE_HANDLERS
#: Physical id → {"type", "properties"}, with resolved references.
records: dict[str, dict[str, Any]] = {}


def replaces(place: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: its function replaces `name`, and gets the original as first argument.

    The place is a module or a dictionary of MiniStack, which must have the name.
    """

    def decorate(new: Callable[..., Any]) -> Callable[..., Any]:
        names = place if isinstance(place, dict) else vars(place)
        names[name] = functools.partial(new, names[name])
        return new

    return decorate


def add_handler(
    kind: str,
    create: Callable[[str, Properties, str], Created],
    delete: Callable[[str, Properties], None],
) -> None:
    """Let stacks have a resource type; an update replaces the resource."""
    if kind in HANDLERS:
        raise ValueError(f"MiniStack now makes {kind} itself: take it out of the plugin")

    def update(
        physical: str, old: Properties, new: Properties, stack: str, logical: str
    ) -> Created:
        delete(physical, old)
        return create(logical, new, stack)

    calls = {"create": create, "update": update, "delete": delete}
    HANDLERS[kind] = {**calls, "update_with_logical_id": True}


def record(physical: str, kind: str, properties: Properties) -> None:
    """Record a resource with its resolved properties."""
    records[physical] = {"type": kind, "properties": copy.deepcopy(properties)}


def forget(physical: str, properties: Properties) -> None:
    """Remove the record of a deleted resource."""
    records.pop(physical, None)


def arn(service: str, resource: str) -> str:
    """Return the ARN of a resource of this account and region."""
    return f"arn:aws:{service}:{responses.get_region()}:{responses.get_account_id()}:{resource}"


def refused(answer: tuple[int, dict[str, str], bytes]) -> None:
    """Raise an error that a service of MiniStack has answered as the error of a resource."""
    status, _, body = answer
    if status >= 400:
        raise ValueError(body.decode() if isinstance(body, bytes) else str(body))
