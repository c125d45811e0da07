"""An endpoint with what a test gives it, by properties or by methods; templates made once."""

import functools
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk.assertions import Template

from embedding_kit import (
    AlarmSettings,
    AlarmTopic,
    Callers,
    Cors,
    EmbeddingEndpoint,
    Hosting,
    IVectorIndex,
    PartAlarms,
)

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


def add_alarms(stack: Stack, part: Any, settings: AlarmSettings | None = None) -> PartAlarms:
    """Add the alarms of a part, with a topic, and a dashboard with its widgets."""
    topic = AlarmTopic(stack, "Notices").topic
    alarms = PartAlarms(stack, "Alarms", part=part, settings=settings, topic=topic)
    cloudwatch.Dashboard(stack, "Dashboard").add_widgets(*alarms.widgets())
    return alarms


def once(make: Callable[..., Template]) -> Callable[..., Template]:
    """Make each template once: settings are no keys of a cache, and their texts are."""
    templates: dict[str, Template] = {}

    @functools.wraps(make)
    def cached(*args: Any, **named: Any) -> Template:
        key = repr((args, named))
        templates[key] = templates.get(key) or make(*args, **named)
        return templates[key]

    return cached
