"""Ask before a deploy of a file from before the deployed release: a step of `scripts/deploy`.

`scripts/migrate` edits the environment's file. Whoever deploys the file as it was before, such as a
job that lacks the commit, would give all requests back to the earlier model, or end what keeps the
index of the next one up to date.
"""

import sys

from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from operations.environment_session import confirm
from operations.migration import OLDER_FILE, Migration
from stacks.environment import EnvironmentSettings


def check_age(session: Session, environment: EnvironmentSettings, *, ask: bool) -> None:
    """Raise a `ValueError` if the file is older than what is deployed, unless the user confirms."""
    # A branch shares its file with the environment that migrates.
    if environment.branch_of or environment.index is None:
        return
    try:
        reason = why_older(Migration(session, environment))
    except (BotoCoreError, ClientError) as error:
        print(f"note: the deployed models could not be looked up: {error}", file=sys.stderr)
        return
    if reason is None:
        return
    rule, allowed = reason
    text = f"{environment.file} is older than what is deployed: {rule}"
    if not ask:
        raise ValueError(
            f"{text}; allowed: {allowed}, or {OLDER_FILE} for this deploy; nothing was deployed"
        )
    if not confirm(f"{text}. Deploy it all the same?"):
        raise ValueError(f"nothing was deployed; allowed: {allowed}")


def why_older(migration: Migration) -> tuple[str, str] | None:
    """Return what a deploy of the file would undo, and what to do instead; None if nothing."""
    command, outputs = migration.command, migration.outputs
    if migration.environment.standby is None:
        if "StandbyIndexArn" not in outputs:
            return None
        index = outputs["StandbyIndexArn"].rpartition("/")[2]
        rule = f"it has no [standby], whose index {index} is kept up to date"
        return rule, f"the file with [standby], or {command} finish, which ends that"
    earlier, later = migration.old, migration.new
    if migration.is_exchanged:
        if not later.index or earlier.index:
            return None
        # It would get another index, without vectors.
        rule = f"[standby] is above [model], as after a switch, and {earlier} is not deployed"
        begins = "or [standby] below [model] to begin a migration"
        return rule, f"the file without [standby], as {command} finish leaves it, {begins}"
    if not later.index or set(migration.shares()) != {later.index}:
        return None
    rule = f"{later} of [standby] answers all requests, and {earlier} would again"
    after = f"the file as {command} switch or finish leaves it"
    return rule, f"{after}; to go back, that file and {command} back"
