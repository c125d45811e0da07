"""An endpoint with what a test gives it, by properties or by methods; templates made once."""

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from aws_cdk import Stack
from aws_cdk.assertions import Template

from embedding_kit import Callers, Cors, EmbeddingEndpoint, Hosting, IVectorIndex

_HOSTING = {field.name for field in fields(Hosting)}


def make_endpoint(
    stack: Stack,
    *,
    callers: Callers | None = None,
    cors: Cors | None = None,
    vector_index: IVectorIndex | None = None,
    **properties: Any,
) -> EmbeddingEndpoint:
    """Create an endpoint; the properties of its hosting are given with its others."""
    hosting = Hosting(**{name: properties.pop(name) for name in _HOSTING & properties.keys()})
    endpoint = EmbeddingEndpoint(stack, "Endpoint", hosting=hosting, **properties)
    if callers:
        endpoint.add_callers(callers)
    if cors:
        endpoint.add_cors(cors)
    if vector_index:
        endpoint.add_vector_index(vector_index)
    return endpoint


def once(make: Callable[..., Template]) -> Callable[..., Template]:
    """Make each template once: settings are no keys of a cache, and their texts are."""
    made: dict[str, Template] = {}

    @functools.wraps(make)
    def cached(*args: Any, **named: Any) -> Template:
        key = repr((args, named))
        made[key] = made.get(key) or make(*args, **named)
        return made[key]

    return cached
