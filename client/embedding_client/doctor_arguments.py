"""The arguments of `embed doctor`. This module imports only what `--help` needs."""

import argparse
import os
from typing import Any

from embedding_client.shared_arguments import add_credentials, whole

__all__ = ["add_doctor"]

_EPILOG = """\
examples:
  embed doctor --environment production
  embed doctor --url https://<id>.lambda-url.<region>.on.aws/ --json

exit status:
  0  no check has failed; there may be warnings and skipped checks
  1  a check has failed, or an error was printed to standard error
  2  invalid arguments
  130  stopped by Ctrl-C or SIGTERM
"""


def add_doctor(commands: Any, *, url_variable: str) -> None:
    """Add `doctor` to the parser of `embed`."""
    parser = commands.add_parser(
        "doctor",
        description="Check a deployed endpoint from outside, and print what to do.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--environment", metavar="NAME", help="an environment deployed by `scripts/deploy`"
    )
    place.add_argument(
        "--url",
        default=os.environ.get(url_variable),
        help=f"default, without --environment: ${url_variable}",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_credentials(parser)
    parser.add_argument(
        "--deployer",
        action="store_true",
        help="only warn if the endpoint refuses these credentials, which need not be a caller's",
    )
    compared = parser.add_argument_group("what to compare with")
    compared.add_argument(
        "--vector-space", metavar="NAME", help="the vector space of your stored vectors"
    )
    compared.add_argument(
        "--accept-vector-space",
        action="store_true",
        help="remember the vector space even if it differs from that of the last use",
    )
    compared.add_argument(
        "--image-days",
        type=whole(0, 100_000),
        default=90,
        metavar="N",
        help="warn if the base image is older than N days (default: %(default)s)",
    )
