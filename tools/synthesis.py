"""Synthesize an environment in this process: nothing is copied, built, deployed or asked of AWS."""

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from stacks.environment import EnvironmentSettings

_CDK_FILE = Path(__file__).resolve().parents[1] / "cdk.json"


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack's template, and what CloudFormation gets besides it.

    Its place is `aws://ACCOUNT/REGION`, with `unknown-` before what the deploying shell decides.
    """

    name: str
    template: dict[str, Any]
    place: str
    protected: bool


def synthesize(environment: EnvironmentSettings) -> list[Stack]:
    """Return the stacks of an environment.

    Raises:
        FileNotFoundError: A model's folder does not exist.
    """
    # The CDK takes seconds to import: mistakes in the file are reported first.
    from aws_cdk import App  # noqa: PLC0415

    from stacks.environment_stacks import EnvironmentStacks  # noqa: PLC0415

    context = json.loads(_CDK_FILE.read_text(encoding="utf-8"))["context"]
    # Nothing is deployed, so no files are copied and no template is validated, which takes seconds.
    context["aws:cdk:disable-asset-staging"] = True
    with TemporaryDirectory() as folder:
        app = App(
            context=context,
            outdir=folder,
            analytics_reporting=False,
            builtin_cloud_formation_validation=False,
        )
        EnvironmentStacks(app, environment)
        return [
            Stack(
                name=stack.stack_name,
                template=stack.template,
                place=stack.environment.name,
                protected=bool(stack.termination_protection),
            )
            for stack in app.synth().stacks
        ]
