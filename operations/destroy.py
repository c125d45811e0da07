"""Destroy an environment. Asks before it changes anything."""

import argparse
import sys

from embedding_kit.programs import exit_with
from operations import cleanup
from operations.cdk import run_cdk
from operations.command import command_parser, report_errors, run_command
from operations.environment_session import session_for
from stacks.environment import EnvironmentSettings

_FAILURE = "{} could not be looked through"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = command_parser("scripts/destroy", __doc__)
    parser.add_argument(
        "-f", "--force", "--force=true", action="store_true", help="destroy without asking"
    )
    parser.add_argument(
        "--removed", action="store_true", help="destroy only what the file no longer has"
    )
    return run_command(parser, _destroy, arguments, failure=_FAILURE, takes_cdk_options=True)


def _destroy(environment: EnvironmentSettings, options: argparse.Namespace) -> int:
    # A question shows the account itself.
    session = session_for(environment, changes=options.force, ask=False)
    status = cleanup.before_destroy(
        session, environment, force=options.force, only_removed=options.removed
    )
    if status or options.removed:
        return status

    def destroy() -> None:
        context = f"environment={environment.argument}"
        run_cdk("destroy", "--all", "-c", context, "--force", *options.cdk_options)
        cleanup.after_destroy(session, environment)

    name = environment.argument
    status = report_errors(destroy, failure=_FAILURE.format(name))
    if status:
        # After Ctrl-C, AWS continues, and the same command, too.
        print(
            f"error: {name} was not destroyed; 'scripts/destroy {name}' continues, "
            f"'scripts/deploy {name}' restores the missing parts",
            file=sys.stderr,
        )
    return status


if __name__ == "__main__":
    exit_with(main)
