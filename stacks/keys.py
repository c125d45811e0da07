"""List, add and revoke the API keys of a CloudFront front: `scripts/keys NAME`.

The key value store has the SHA-256 of each key, and whose it is. The key itself is printed once,
when it is added, and is stored nowhere. CloudFront applies a change within seconds.
"""

import argparse
import hashlib
import json
import re
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session, get_session

from embedding_kit.environment import Environment
from embedding_kit.environment_file import load_environment
from stacks.names import front_stack_name

__all__ = ["Key", "KeyStore", "find_store", "main", "new_key"]

_ENVIRONMENTS = Path(__file__).parents[1] / "environments"
_OUTPUT = "KeyStoreArn"
_CALLER = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_CALLER_ALLOWED = "up to 40 lower-case letters and digits, a letter first, with single hyphens"
#: The digits of a hash that name a key in lists and commands.
_ID_DIGITS = 12
#: So that programs that search for leaked secrets recognize a key.
_PREFIX = "embk_"
_PAGE = 50


@dataclass(frozen=True, slots=True)
class Key:
    """A valid key, without the secret.

    Attributes:
        digest: The SHA-256 of the key, in hexadecimal.
        caller: Whose it is.
        created: The day it was added.
    """

    digest: str
    caller: str
    created: date

    @property
    def id(self) -> str:
        """The beginning of the digest, which names the key in commands."""
        return self.digest[:_ID_DIGITS]


class KeyStore:
    """The keys in CloudFront's key value store.

    Args:
        client: A client of `cloudfront-keyvaluestore`.
        arn: The store's ARN.
    """

    def __init__(self, client: Any, arn: str) -> None:
        self._client = client
        self._arn = arn

    def all(self) -> list[Key]:
        """Return all keys, by caller and day."""
        pages = self._client.get_paginator("list_keys").paginate(
            KvsARN=self._arn, PaginationConfig={"PageSize": _PAGE}
        )
        found = [_key(item) for page in pages for item in page.get("Items", [])]
        return sorted(found, key=lambda key: (key.caller, key.created, key.digest))

    def add(self, secret: str, caller: str, today: date) -> Key:
        """Store the hash of a key."""
        key = Key(hashlib.sha256(secret.encode()).hexdigest(), caller, today)
        value = json.dumps({"caller": caller, "created": today.isoformat()})
        self._change("put_key", Key=key.digest, Value=value)
        return key

    def revoke(self, named: str) -> Key:
        """Remove the key with an id.

        Raises:
            ValueError: No key has the id.
        """
        keys = self.all()
        matching = [key for key in keys if key.id == named]
        if len(matching) != 1:
            ids = ", ".join(key.id for key in keys) or "none; there are no keys"
            raise ValueError(f"no key has this id; found: {named}; allowed: {ids}")
        self._change("delete_key", Key=matching[0].digest)
        return matching[0]

    def _change(self, operation: str, **arguments: str) -> None:
        # The tag refuses a change that does not know of another one.
        tag = self._client.describe_key_value_store(KvsARN=self._arn)["ETag"]
        getattr(self._client, operation)(KvsARN=self._arn, IfMatch=tag, **arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="scripts/keys", description=__doc__)
    parser.add_argument("environment")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="print the id, the caller and the day of each key")
    adding = commands.add_parser("add", help="add a key for a caller, and print it")
    adding.add_argument("caller", metavar="CALLER", help="the caller's name, for lists")
    revoking = commands.add_parser("revoke", help="refuse a key from now on")
    revoking.add_argument("id", metavar="ID", help="the key's id, as `list` prints it")
    options = parser.parse_args(arguments)
    try:
        if options.command == "add":
            _check_caller(options.caller)
        environment = load_environment(options.environment, folder=_ENVIRONMENTS)
        _COMMANDS[options.command](find_store(get_session(), environment), options)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (BotoCoreError, ClientError) as error:
        print(
            f"error: the keys of {options.environment} could not be read or changed, run it again: "
            f"{error}",
            file=sys.stderr,
        )
        return 1
    return 0


def find_store(session: Session, environment: Environment) -> KeyStore:
    """Find the key value store of a deployed environment.

    Raises:
        ValueError: The environment has no distribution, or it is not deployed.
    """
    kind = environment.front.kind if environment.front else "none"
    if kind != "cloudfront":
        raise ValueError(
            f"only CloudFront has keys that this command changes; found: front.kind = {kind}; "
            "allowed: front.kind = \"cloudfront\"; API Gateway's keys are in the environment's file"
        )
    name = front_stack_name(environment.name)
    client = session.create_client("cloudformation", region_name=environment.region)
    try:
        (stack,) = client.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "ValidationError":
            raise
        stack = {}
    outputs = {one["OutputKey"]: one["OutputValue"] for one in stack.get("Outputs", [])}
    if _OUTPUT not in outputs:
        raise ValueError(
            f"the key value store belongs to a deployed front; found: no output {_OUTPUT} of "
            f"{name}; allowed: after scripts/deploy {environment.name}"
        )
    return KeyStore(
        session.create_client("cloudfront-keyvaluestore", region_name=environment.region),
        outputs[_OUTPUT],
    )


def new_key() -> str:
    """Return a new key: 256 random bits, so that a plain hash of it cannot be inverted."""
    return _PREFIX + secrets.token_urlsafe(32)


def _list(store: KeyStore, _: argparse.Namespace) -> None:
    for key in store.all():
        print(f"{key.id}  {key.created}  {key.caller}")


def _add(store: KeyStore, options: argparse.Namespace) -> None:
    secret = new_key()
    key = store.add(secret, options.caller, datetime.now(UTC).date())
    print(f"The new key {key.id} of {key.caller}, which is not shown again:", file=sys.stderr)
    print(secret)


def _revoke(store: KeyStore, options: argparse.Namespace) -> None:
    key = store.revoke(options.id)
    print(f"The key {key.id} of {key.caller} is refused from now on.")


_COMMANDS: dict[str, Callable[[KeyStore, argparse.Namespace], None]] = {
    "list": _list,
    "add": _add,
    "revoke": _revoke,
}


def _check_caller(name: str) -> None:
    if len(name) > 40 or not _CALLER.fullmatch(name):
        raise ValueError(f"a caller has a short name; found: {name}; allowed: {_CALLER_ALLOWED}")


def _key(item: dict[str, str]) -> Key:
    """Read an entry; one of another program has no caller and day, and can be revoked as well."""
    try:
        value = json.loads(item["Value"])
        return Key(item["Key"], str(value["caller"]), date.fromisoformat(value["created"]))
    except (ValueError, TypeError, KeyError):
        return Key(item["Key"], "unknown", date.min)


if __name__ == "__main__":
    sys.exit(main())
