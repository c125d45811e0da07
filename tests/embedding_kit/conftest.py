"""Constructs in a stack of their own, synthesized once for each set of properties."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# jsii starts the first `node` of the PATH; the environment's own needs no page of warnings.
os.environ.setdefault("JSII_NODE", str(Path(sys.prefix) / "bin" / "node"))

from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from embedding_kit import EmbeddingEndpoint, Model

ROOT = Path(__file__).resolve().parents[2]
MODEL = Model(name="sentence-transformers/all-MiniLM-L6-v2")


def synthesize(build: Callable[[Stack], object]) -> dict[str, Any]:
    """Build in an empty stack and return its template."""
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = App(context=context, analytics_reporting=False)
    stack = Stack(app, "Stack")
    build(stack)
    template: dict[str, Any] = app.synth().get_stack_by_name("Stack").template
    return template


@pytest.fixture(scope="session")
def endpoint_template() -> Callable[..., Template]:
    """Return the template of an endpoint with these properties; each is synthesized once."""
    made: dict[str, Template] = {}

    def make(**properties: Any) -> Template:
        key = repr(properties)
        if key not in made:
            made[key] = Template.from_json(
                synthesize(
                    lambda stack: EmbeddingEndpoint(stack, "Endpoint", model=MODEL, **properties)
                )
            )
        return made[key]

    return make
