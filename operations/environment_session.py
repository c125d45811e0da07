"""The AWS session of a script that acts on an environment. All scripts get it here.

scripts/setup reads `--profile`, so that the CDK's command uses the same credentials.
"""

import sys
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError
from botocore.session import Session, get_session

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.environment_file import EnvironmentFileError


def session_for(
    environment: EnvironmentSettings, *, changes: bool = False, ask: bool = True
) -> Session:
    """Return a session with the caller's credentials, if they are of the environment's account.

    A command that `changes` something shows the account if the file names none, and may `ask` at a
    terminal.

    Raises:
        EnvironmentFileError: The credentials are of another account, there is no region, or the
            answer is no.
    """
    session = get_session()
    account, region = place_of_caller(session, environment)
    file = environment.file
    if environment.account not in {None, account}:
        raise EnvironmentFileError(
            f"{file}: account: the credentials are of another account; found: {account}; allowed: "
            f"{environment.account}, with --profile or AWS_PROFILE"
        )
    if changes and environment.account is None:
        found = f"{file} names no account; the credentials are of {account}, in {region}"
        if not (ask and sys.stdin.isatty()):
            print(f"note: {found}", file=sys.stderr)
        elif not confirmed(f"{found}. Continue?"):
            raise EnvironmentFileError("nothing was changed")
    return session


def place_of_caller(session: Session, environment: EnvironmentSettings) -> tuple[str, str]:
    """Return the account of the credentials, as STS names it, and the region."""
    region = environment.region or session.get_config_variable("region")
    if not region:
        raise EnvironmentFileError(
            "there is no region; found: none; allowed: AWS_REGION, the region of a profile, or "
            f"region in {environment.file}"
        )
    client = session.create_client("sts", region_name=region)
    return client.get_caller_identity()["Account"], region


def account_of(session: Session, environment: EnvironmentSettings) -> str:
    """Return the account that the file names, or that of the credentials."""
    if environment.account:
        return environment.account
    client = session.create_client("sts", region_name=environment.region)
    return str(client.get_caller_identity()["Account"])


def confirmed(question: str) -> bool:
    """Ask a question, on standard error; return whether the answer is yes."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        return input().strip().lower() in {"y", "yes"}
    except (EOFError, KeyboardInterrupt):
        print(file=sys.stderr)
        return False


def look_up(call: Callable[..., Any], **parameters: Any) -> Any | None:
    """Return the answer of a call of AWS; None if there is no such thing."""
    try:
        return call(**parameters)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        # S3 answers HEAD with the status alone.
        if code == "404" or "NotFound" in code or code.startswith("NoSuch"):
            return None
        # CloudFormation has this code for a stack that does not exist.
        if code == "ValidationError" and set(parameters) == {"StackName"}:
            return None
        raise
