"""The arguments of `embed load`. This module imports only what `--help` needs."""

import argparse
import os
from pathlib import Path
from typing import Any

from embedding_client.shared_arguments import add_credentials, between, whole

__all__ = ["add_load"]

_EXAMPLES = """\
examples:
  embed load --url https://... --rate 50 --minutes 5
  embed load --url http://127.0.0.1:9000 --rate 10 --minutes 0.5 --tokens 8..400

AWS bills the requests of a test. A test ends at --minutes, --requests or Ctrl-C, whichever is
first, waits up to --timeout for answers, and then writes its report. It never sends a request
twice.

exit status:
  0  the test ended; throttled requests (429) are not errors
  1  the test could not start, an error such as expired credentials ended it, or its report could
     not be written
  2  invalid arguments
  3  the test ended, and requests failed, timed out or were refused
  130  stopped by Ctrl-C or SIGTERM
"""
_MOST_TOKENS = 32_768


def add_load(commands: Any, *, url_variable: str) -> None:
    """Add the command `load`."""
    parser = commands.add_parser(
        "load",
        description="Send signed requests to an endpoint at the rate you choose, and report "
        "latencies, cold starts, throttled requests and errors.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(usage_error=parser.error)
    traffic = parser.add_argument_group("traffic")
    traffic.add_argument(
        "--rate",
        type=between(0.001, 10_000),
        default=5.0,
        metavar="N",
        help="requests a second on average, at random times (default 5)",
    )
    traffic.add_argument(
        "--tokens",
        type=_tokens,
        metavar="N..M",
        help="tokens of each text: a number, or a range with many short and few long ones "
        "(default 8..400, or the model's limit if that is lower)",
    )
    traffic.add_argument(
        "--seed", type=int, default=0, help="seed of the random times and texts (default 0)"
    )
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--minutes",
        type=between(0.01, 24 * 60),
        default=1.0,
        metavar="N",
        help="the length of the test (default 1)",
    )
    limits.add_argument(
        "--requests",
        type=whole(1, 10_000_000),
        default=100_000,
        metavar="N",
        help="end after this number of requests (default 100000)",
    )
    limits.add_argument(
        "--connections",
        type=whole(1, 20_000),
        default=1000,
        metavar="N",
        help="the most requests at the same time; others wait (default 1000)",
    )
    limits.add_argument(
        "--timeout",
        type=between(0.1, 900),
        default=60.0,
        metavar="SECONDS",
        help="timeout of a request (default 60)",
    )
    endpoint = parser.add_argument_group("endpoint")
    endpoint.add_argument(
        "--url", default=os.environ.get(url_variable), help=f"default: ${url_variable}"
    )
    add_credentials(endpoint)
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON instead of the table")
    output.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the JSON to this file, too; an existing one is replaced",
    )


def _tokens(text: str) -> tuple[int, int]:
    low, dots, high = text.partition("..")
    try:
        found = int(low), int(high if dots else low)
    except ValueError:
        found = (0, 0)
    if not 1 <= found[0] <= found[1] <= _MOST_TOKENS:
        raise argparse.ArgumentTypeError(
            f"found: {text}; allowed: a number or a range such as 8..400, from 1 to "
            f"{_MOST_TOKENS:,}"
        )
    return found
