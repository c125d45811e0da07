"""The command `scripts/cost`: the forecast of the operations, with what it counts synthesized."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from embedding_kit.environment import EnvironmentSettings
from operations.cost.bill import Resource
from operations.cost.command import main

_CDK_FILE = Path(__file__).resolve().parents[1] / "cdk.json"


def resources_of(environment: EnvironmentSettings) -> list[Resource]:
    """Synthesize an environment; return the resources of all its templates."""
    # The CDK takes seconds to import, and mistakes are told before.
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
            resource
            for stack in app.synth().stacks
            for resource in stack.template["Resources"].values()
        ]


if __name__ == "__main__":
    sys.exit(main(synthesize=resources_of))
