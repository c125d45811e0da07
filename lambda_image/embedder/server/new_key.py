"""Makes an API key: `embedding-kit embedder.server.new_key NAME >>keys`.

The line for the keys' file goes to standard output. The secret, which is for the caller, goes to
standard error, and is kept nowhere.
"""

import argparse
import hashlib
import secrets
import sys
from collections.abc import Sequence

from embedder.server.keys import check_name

#: Scanners of repositories and logs can find a secret by this prefix.
_PREFIX = "ek_"


def make_key(name: str) -> tuple[str, str]:
    """Return a new secret of a caller, and its line."""
    secret = _PREFIX + secrets.token_urlsafe(32)
    return secret, f"{name}:{hashlib.sha256(secret.encode()).hexdigest()}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="embedding-kit embedder.server.new_key",
        description="Make an API key. Its line for the keys' file is written to standard output, "
        "its secret to standard error. The secret cannot be shown again.",
    )
    parser.add_argument("name", metavar="NAME", help="the caller's name, in logs and metrics")
    name = parser.parse_args(arguments).name
    try:
        check_name(name)
    except ValueError as error:
        parser.error(f"{error}.")
    secret, line = make_key(name)
    sys.stdout.write(f"{line}\n")
    sys.stderr.write(f"The secret of {name}, shown only now: {secret}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
