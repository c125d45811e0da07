"""An endpoint with what a test gives it, by properties or by methods."""

from dataclasses import fields
from typing import Any

from aws_cdk import Stack

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
