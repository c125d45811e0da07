"""Provide constructs in their own stacks, synthesized once for each set of properties."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

# jsii runs the first `node` on the PATH; the environment's own prints no page of warnings.
os.environ.setdefault("JSII_NODE", str(Path(sys.prefix) / "bin" / "node"))

from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from embedding_kit import Model
from tests.embedding_kit.endpoints import make_endpoint

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def model() -> Model:
    """Return a small model under a free license."""
    return Model(name="sentence-transformers/all-MiniLM-L6-v2")


@pytest.fixture(scope="session")
def synthesize() -> Callable[[Callable[[Stack], object]], Template]:
    """Build in an empty stack of a new app, and return its template."""
    return _synthesize


@dataclass(frozen=True, kw_only=True)
class Question:
    """May `principal` do `action` on `resource`, which belongs to `account`?"""

    principal: str
    action: str
    resource: str
    account: str = "123456789012"
    context: dict[str, str] = field(default_factory=dict)
    identity: list[dict[str, Any]] = field(default_factory=list)
    resource_policy: dict[str, Any] | None = None


@pytest.fixture(scope="session")
def question() -> type[Question]:
    """Return the signature of a question to `may`."""
    return Question


@pytest.fixture(scope="session")
def may() -> Callable[..., list[bool]]:
    """Answer questions with an independent evaluator of IAM policies."""

    def ask(*questions: Question) -> list[bool]:
        # As code, so that Node finds the package from the current folder.
        code = Path(__file__).with_name("evaluate_policies.mjs").read_text()
        done = subprocess.run(
            [os.environ["JSII_NODE"], "--input-type=module", "--eval", code],
            cwd=ROOT / "scripts",
            input=json.dumps([vars(question) for question in questions]),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answers: list[bool] = json.loads(done.stdout)
        return answers

    return ask


def _synthesize(build: Callable[[Stack], object]) -> Template:
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = App(context=context, analytics_reporting=False)
    stack = Stack(app, "Stack")
    build(stack)
    return Template.from_json(app.synth().get_stack_by_name("Stack").template)


@pytest.fixture(scope="session")
def endpoint_template(model: Model) -> Callable[..., Template]:
    """Return the template of an endpoint with these properties; synthesize each set once."""
    made: dict[str, Template] = {}

    def make(**properties: Any) -> Template:
        key = repr(properties)
        if key not in made:
            made[key] = _synthesize(lambda stack: make_endpoint(stack, model=model, **properties))
        return made[key]

    return make
