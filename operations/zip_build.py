"""Build the zip of an environment before its deploy: `python -m operations.zip_build NAME`.

The CDK's command builds it too, without showing how far it is. This shows it, and the CDK's command
then finds the zip in the cache.
"""

import argparse
import subprocess

from embedding_kit.image_identity import build_command
from embedding_kit.programs import exit_with
from embedding_kit.settings import artifact_in_s3
from operations.command import command_parser, run_command
from stacks.environment import EnvironmentSettings


def main(arguments: list[str] | None = None) -> int:
    """Build the zip if the environment has one; return the builder's exit status."""
    parser = command_parser("python -m operations.zip_build", __doc__)
    # An assembly has a recipe, which may differ from this folder's.
    parser.add_argument("-a", "--app", help="a synthesized assembly, of which nothing is built")
    return run_command(parser, _build, arguments, takes_cdk_options=True)


def _build(environment: EnvironmentSettings, options: argparse.Namespace) -> int:
    if environment.function.package != "zip" or options.app:
        return 0
    in_s3 = artifact_in_s3(environment.model, environment.function)
    command = build_command(environment.model, *["--without-artifact"] * in_s3)
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode  # noqa: S603


if __name__ == "__main__":
    exit_with(main)
