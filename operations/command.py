"""The frame of the commands that act on an environment: its file, the action, one line of error."""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from embedding_client.doctor import LOGIN
from embedding_client.doctor.probes import INVALID_CREDENTIALS, NO_CREDENTIALS
from stacks.environment import EnvironmentSettings
from stacks.environment_file import load_environment

_INTERRUPTED = 130
ENVIRONMENTS = Path(__file__).parents[1] / "environments"


def command_parser(program: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the environment's name as its first argument."""
    # An option of the CDK's command, such as --all, is no abbreviation of one of ours.
    parser = argparse.ArgumentParser(prog=program, description=description, allow_abbrev=False)
    parser.add_argument("environment")
    return parser


def read_environment(name: str) -> EnvironmentSettings:
    """Read an environment's file."""
    return load_environment(name, folder=ENVIRONMENTS)


def run_command(
    parser: argparse.ArgumentParser,
    action: Callable[[EnvironmentSettings, argparse.Namespace], int | None],
    arguments: Sequence[str] | None,
    *,
    failure: str = "{}",
    takes_cdk_options: bool = False,
) -> int:
    """Parse the arguments, act, and print an error as one line; return the exit status.

    Args:
        parser: The command's parser.
        action: The action; it may return a status. A `ValueError` says what is wrong, and what is
            allowed.
        arguments: The arguments; those of the process if None.
        failure: The text before an error of AWS; `{}` is replaced by the environment's name.
        takes_cdk_options: Whether other options are accepted, for the CDK's command. The action
            finds them in `options.cdk_options`.
    """
    options, cdk_options = parser.parse_known_args(arguments)
    if cdk_options and not takes_cdk_options:
        parser.error(f"unrecognized arguments: {' '.join(cdk_options)}")
    options.cdk_options = cdk_options
    return report_errors(
        lambda: action(read_environment(options.environment), options),
        failure=failure.format(options.environment),
    )


def report_errors(action: Callable[[], int | None], *, failure: str) -> int:
    """Act, and print an error as one line; return the exit status.

    `failure` is the text before an error of AWS.
    """
    try:
        with explained(failure):
            return action() or 0
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        # The program has printed why.
        return error.returncode
    except KeyboardInterrupt:
        return _INTERRUPTED


@contextmanager
def explained(failure: str) -> Iterator[None]:
    """Raise an error of AWS as a `ValueError` that begins with what has failed."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise ValueError(f"{failure}: {error}{_advice(error)}") from error


def _advice(error: BotoCoreError | ClientError) -> str:
    code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
    is_login = code in INVALID_CREDENTIALS or isinstance(error, NO_CREDENTIALS)
    return f"; {LOGIN}" if is_login else ""
