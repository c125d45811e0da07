"""The command line of the scripts that move an environment's alias to a version."""

import argparse
import sys
from pathlib import Path
from typing import Protocol

from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.environment_file import load_environment
from operations.environment_session import session_for

__all__ = ["run_version_command"]

_ENVIRONMENTS = Path(__file__).parents[1] / "environments"


class _Action(Protocol):
    def __call__(
        self, session: Session, environment: EnvironmentSettings, *, version: str | None
    ) -> str: ...


def run_version_command(
    arguments: list[str] | None,
    action: _Action,
    *,
    program: str,
    description: str | None,
    default: str,
    failure: str,
) -> int:
    """Parse `NAME [--version N]`, act, and print the result or one line of error.

    Args:
        arguments: The command's arguments; those of the process if None.
        action: Returns a description of the change, or raises a `ValueError`.
        program: The command's name in its help.
        description: The text of its help.
        default: The version that is chosen without `--version`.
        failure: The text before an error of AWS; `{}` is replaced by the environment's name.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("environment")
    parser.add_argument(
        "--version", help=f"the version that gets all requests; {default} by default"
    )
    options = parser.parse_args(arguments)
    try:
        environment = load_environment(options.environment, folder=_ENVIRONMENTS)
        session = session_for(environment, changes=True)
        print(action(session, environment, version=options.version))
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (BotoCoreError, ClientError) as error:
        print(f"error: {failure.format(options.environment)}: {error}", file=sys.stderr)
        return 1
    return 0
