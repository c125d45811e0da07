"""Provide constructs in their own stacks, synthesized once for each set of properties."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# jsii runs the first `node` on the PATH; the environment's own prints no page of warnings.
os.environ.setdefault("JSII_NODE", str(Path(sys.prefix) / "bin" / "node"))

from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from embedding_kit import ModelSettings
from tests.embedding_kit.endpoints import make_endpoint, once

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def model() -> ModelSettings:
    """Return a small model under a free license."""
    return ModelSettings(name="sentence-transformers/all-MiniLM-L6-v2")


@pytest.fixture(scope="session")
def synthesize() -> Callable[[Callable[[Stack], object]], Template]:
    """Build in an empty stack of a new app, and return its template."""
    return _synthesize


def _synthesize(build: Callable[[Stack], object]) -> Template:
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = App(context=context, analytics_reporting=False)
    stack = Stack(app, "Stack")
    build(stack)
    return Template.from_json(app.synth().get_stack_by_name("Stack").template)


@pytest.fixture(scope="session")
def endpoint_template(model: ModelSettings) -> Callable[..., Template]:
    """Return the template of an endpoint with these properties; synthesize each set once."""

    @once
    def make(**properties: Any) -> Template:
        return _synthesize(lambda stack: make_endpoint(stack, model=model, **properties))

    return make
