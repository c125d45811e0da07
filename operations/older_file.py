"""Ask before a deploy of a file from before the deployed release: a step of `scripts/deploy`.

`scripts/migrate` edits the environment's file. Whoever deploys the file as it was before, such as a
job that lacks the commit, would give all requests back to the earlier model, or end what keeps the
index of the next one up to date.
"""

import argparse
import sys

from botocore.exceptions import BotoCoreError, ClientError

from embedding_kit.programs import exit_with
from operations.command import command_parser, run_command
from operations.environment_session import confirmed, may_ask, session_for
from operations.migration import OLDER_FILE, Migration
from stacks.environment import EnvironmentSettings


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if the file may be deployed, else print why not and return 1."""
    parser = command_parser("python -m operations.older_file", __doc__)
    parser.add_argument(OLDER_FILE, action="store_true", help="deploy it without asking")
    return run_command(parser, _check, arguments, takes_cdk_options=True)


def _check(environment: EnvironmentSettings, options: argparse.Namespace) -> None:
    # A branch shares its file with the environment that migrates.
    if options.allow_older_file or environment.branch_of or environment.index is None:
        return
    try:
        reason = why_older(Migration(session_for(environment), environment))
    except (BotoCoreError, ClientError) as error:
        print(f"note: the deployed models could not be looked up: {error}", file=sys.stderr)
        return
    if reason is None:
        return
    rule, allowed = reason
    text = f"{environment.file} is older than what is deployed: {rule}"
    if not may_ask(options.of_cdk):
        raise ValueError(
            f"{text}; allowed: {allowed}, or {OLDER_FILE} for this deploy; nothing was deployed"
        )
    if not confirmed(f"{text}. Deploy it all the same?"):
        raise ValueError(f"nothing was deployed; allowed: {allowed}")


def why_older(migration: Migration) -> tuple[str, str] | None:
    """Return what a deploy of the file would undo, and what to do instead; None if nothing."""
    command, outputs = migration.command, migration.outputs
    if migration.environment.standby is None:
        if "StandbyIndexArn" not in outputs:
            return None
        index = outputs["StandbyIndexArn"].rpartition("/")[2]
        found = f"it has no [standby], whose index {index} is kept up to date"
        return found, f"the file with [standby], or {command} finish, which ends that"
    old, new = migration.old, migration.new
    if migration.is_exchanged:
        if not new.index or old.index:
            return None
        # It would get another index, without vectors.
        found = f"[standby] is above [model], as after a switch, and {old} is not deployed"
        begins = "or [standby] below [model] to begin a migration"
        return found, f"the file without [standby], as {command} finish leaves it, {begins}"
    if not new.index or set(migration.shares()) != {new.index}:
        return None
    found = f"{new} of [standby] answers all requests, and {old} would again"
    after = f"the file as {command} switch or finish leaves it"
    return found, f"{after}; to go back, that file and {command} back"


if __name__ == "__main__":
    exit_with(main)
