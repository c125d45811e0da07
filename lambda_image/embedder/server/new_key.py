"""Makes an API key: `embedding-kit embedder.server.new_key NAME >>keys`.

The line for the keys' file goes to standard output. The secret, which is for the caller, goes to
standard error, and is kept nowhere.
"""

import argparse
import hashlib
import secrets
import sys
from collections.abc import Sequence

from embedder.server.exchange import Caller
from embedder.server.keys import Key, check_name, format_line, parse_limit

__all__ = ["main", "make_key"]

#: By this, scanners of repositories and logs can find a secret that got there.
_PREFIX = "ek_"


def make_key(caller: Caller) -> tuple[str, str]:
    """Return a new secret of a caller, and its line."""
    secret = _PREFIX + secrets.token_urlsafe(32)
    return secret, format_line(Key(caller, hashlib.sha256(secret.encode()).digest()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="embedding-kit embedder.server.new_key",
        description="Make an API key. Its line for the keys' file is written to standard output, "
        "its secret to standard error. The secret cannot be shown again.",
    )
    parser.add_argument("name", metavar="NAME", help="the caller's name, in logs and metrics")
    for limit in ("requests_per_minute", "tokens_per_minute"):
        flag = f"--{limit.replace('_', '-')}"
        parser.add_argument(flag, dest=limit, metavar="N", help="default: no limit")
    given = vars(parser.parse_args(arguments))
    try:
        check_name(given["name"])
        limits = {
            name: parse_limit(name, value)
            for name, value in given.items()
            if name != "name" and value is not None
        }
    except ValueError as error:
        parser.error(f"{error}.")
    secret, line = make_key(Caller(given["name"], **limits))
    sys.stdout.write(f"{line}\n")
    sys.stderr.write(f"The secret of {given['name']}, shown only now: {secret}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
