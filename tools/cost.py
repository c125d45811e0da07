"""The command `scripts/cost`: the forecast of the operations, with what it counts synthesized."""

from embedding_kit.programs import exit_with
from operations.cost.bill import Resource
from operations.cost.command import main
from stacks.environment import EnvironmentSettings
from tools.synthesis import synthesize


def resources_of(environment: EnvironmentSettings) -> list[Resource]:
    """Synthesize an environment; return the resources of all its templates."""
    return [
        resource
        for stack in synthesize(environment)
        for resource in stack.template["Resources"].values()
    ]


if __name__ == "__main__":
    exit_with(lambda: main(synthesize=resources_of))
