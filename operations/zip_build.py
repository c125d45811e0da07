"""Build the zip of an environment before its deploy.

The CDK's command builds it too, without showing how far it is. This shows it, and the CDK's command
then finds the zip in the cache.
"""

import subprocess

from embedding_kit.image_identity import build_command
from embedding_kit.settings import artifact_in_s3
from stacks.environment import EnvironmentSettings


def build_zip(environment: EnvironmentSettings) -> int:
    """Build the zip if the environment has one; return the builder's exit status."""
    if environment.function.package != "zip":
        return 0
    in_s3 = artifact_in_s3(environment.model, environment.function)
    command = build_command(environment.model, *["--without-artifact"] * in_s3)
    return subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode  # noqa: S603
