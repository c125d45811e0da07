"""The AWS session of a script that acts on an environment. All scripts get it here.

scripts/setup reads `--profile`, so that the CDK's command uses the same credentials. Like that
command, `bootstrap_client` takes a role of `cdk bootstrap` if it may.
"""

import functools
import re
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any, Literal

from botocore.exceptions import ClientError
from botocore.loaders import Loader
from botocore.session import Session, get_session

from stacks.environment import EnvironmentSettings
from stacks.environment_file import EnvironmentFileError
from stacks.names import bootstrap_qualifier

#: What a role may do: publish files or images, or change stacks.
Purpose = Literal["file-publishing", "image-publishing", "deploy"]
#: The options of `cdk deploy` without which it asks: `--require-approval never` and `--yes`.
_NO_QUESTION = {"never", "--require-approval=never", "--yes", "-y"}


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
    account, region = read_account_and_region(session, environment)
    file = environment.file
    if environment.account not in {None, account}:
        raise EnvironmentFileError(
            f"{file}: account: the credentials are of another account; found: {account}; allowed: "
            f"{environment.account}, with --profile or AWS_PROFILE"
        )
    if changes and environment.account is None:
        text = f"{file} names no account; the credentials are of {account}, in {region}"
        if not (ask and sys.stdin.isatty()):
            print(f"note: {text}", file=sys.stderr)
        elif not confirm(f"{text}. Continue?"):
            raise EnvironmentFileError("nothing was changed")
    return session


def read_account_and_region(session: Session, environment: EnvironmentSettings) -> tuple[str, str]:
    """Return the account of the credentials, as STS names it, and the region."""
    region = environment.region or session.get_config_variable("region")
    if not region:
        raise EnvironmentFileError(
            "there is no region; found: none; allowed: AWS_REGION, the region of a profile, or "
            f"region in {environment.file}"
        )
    client = session.create_client("sts", region_name=region)
    return client.get_caller_identity()["Account"], region


def read_account(session: Session, environment: EnvironmentSettings) -> str:
    """Return the account that the file names, or that of the credentials."""
    if environment.account:
        return environment.account
    client = session.create_client("sts", region_name=environment.region)
    return str(client.get_caller_identity()["Account"])


def may_ask(cdk_options: Collection[str]) -> bool:
    """Return whether a question can be asked: at a terminal, unless an option says not to ask."""
    return sys.stdin.isatty() and not _NO_QUESTION & {*cdk_options}


def confirm(question: str) -> bool:
    """Ask a question, on standard error; return whether the answer is yes."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        return input().strip().lower() in {"y", "yes"}
    except (EOFError, KeyboardInterrupt):
        print(file=sys.stderr)
        return False


def answer_or_none(call: Callable[..., Any], **parameters: Any) -> Any | None:
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


def list_all(client: Any, operation: str, found: str, **parameters: Any) -> Iterator[Any]:
    """Yield the items of the list `found` of all pages of an answer of AWS."""
    for page in client.get_paginator(operation).paginate(**parameters):
        yield from page[found]


def bootstrap_role(purpose: Purpose, *, account: str, region: str) -> str:
    """Return the ARN of bootstrap's role for a purpose."""
    role = f"cdk-{bootstrap_qualifier()}-{purpose}-role-{account}-{region}"
    return f"arn:{_partition(region)['name']}:iam::{account}:role/{role}"


def partition_domain(region: str) -> str:
    """Return the domain of the partition of a region."""
    return _partition(region)["dnsSuffix"]


@functools.cache
def _partition(region: str) -> dict[str, str]:
    """Return botocore's description of the partition of a region."""
    for partition in Loader().load_data("partitions")["partitions"]:
        if re.match(partition["regionRegex"], region):
            outputs: dict[str, str] = partition["outputs"]
            return outputs
    raise ValueError(f"there is no region {region}; allowed: a region of AWS, such as us-east-1")


def bootstrap_client(
    session: Session, service: str, purpose: Purpose, *, account: str, region: str
) -> Any:
    """Return a client with a role's credentials; with the caller's own if it may not assume it."""
    role = bootstrap_role(purpose, account=account, region=region)
    try:
        credentials = session.create_client("sts", region_name=region).assume_role(
            RoleArn=role, RoleSessionName="embedding-kit"
        )["Credentials"]
    except ClientError:
        return session.create_client(service, region_name=region)
    return session.create_client(
        service,
        region_name=region,
        aws_access_key_id=credentials["AccessKeyId"],
        aws_secret_access_key=credentials["SecretAccessKey"],
        aws_session_token=credentials["SessionToken"],
    )
