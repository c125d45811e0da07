"""The arguments of `embed load`."""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from embedding_client.arguments import URL_VARIABLE
from embedding_client.credential_arguments import add_credentials
from embedding_costs.numbers import parse_number
from embedding_costs.traffic import SHAPES
from embedding_load.settings import Settings

__all__ = ["parse"]

_EXAMPLES = """\
examples:
  embed load --url https://... --rate 50 --minutes 5
  embed load --rate 50 --shape diurnal --minutes 5 --tokens 8..400 --budget-usd 1
  embed load --rate 20 --environment production
  embed load --url http://127.0.0.1:9000 --rate 10 --minutes 0.5

AWS bills the requests of a test. A test ends at --minutes, --requests, --budget-usd or Ctrl-C,
whichever is first, and then writes its report. At the end it waits up to
--timeout for answers. It never sends a request twice.

exit status:
  0  the test ended; throttled requests (429) are not errors
  1  the test could not start, an error such as expired credentials ended it, or its report could
     not be written
  2  invalid arguments
  3  the test ended, and requests failed, timed out or were refused
  130  stopped by Ctrl-C or SIGTERM
"""
#: More requests a second than one process sends.
_HIGHEST_RATE = 10_000
_LONGEST_MINUTES = 24 * 60
_MOST_TOKENS = 32_768
_MOST_REQUESTS = 10_000_000


def parse(arguments: Sequence[str]) -> Settings:
    """Parse a command line.

    Raises:
        SystemExit: After --help, and with status 2 for invalid arguments.
    """
    parser = argparse.ArgumentParser(
        prog="embed load",
        description="Send signed requests to an endpoint at the rate you choose, and report "
        "latencies, cold starts, throttled requests, errors and cost.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_traffic(parser)
    _add_limits(parser)
    _add_endpoint(parser)
    _add_cost(parser)
    _add_output(parser)
    options = parser.parse_args(arguments)
    if not options.url:
        parser.error(f"there is no endpoint: give --url, or set {URL_VARIABLE}")
    return Settings(**vars(options))


def _add_traffic(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("traffic")
    group.add_argument(
        "--rate",
        type=_between(0.001, _HIGHEST_RATE),
        default=5.0,
        metavar="N",
        help="requests a second on average, at random times (default 5)",
    )
    group.add_argument(
        "--shape",
        choices=SHAPES,
        default="flat",
        help="flat: a constant rate; diurnal: a day in miniature; bursty: 95%% of the requests in "
        "the first twelfth of the test (default flat)",
    )
    group.add_argument(
        "--tokens",
        type=_tokens,
        metavar="N..M",
        help="tokens of each text: a number, or a range with many short and few long texts "
        "(default 8..400, or the model's limit if that is lower)",
    )
    group.add_argument(
        "--seed", type=int, default=0, help="seed of the random times and texts (default 0)"
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("limits")
    group.add_argument(
        "--minutes",
        type=_between(0.01, _LONGEST_MINUTES),
        default=1.0,
        metavar="N",
        help="the length of the test (default 1)",
    )
    group.add_argument(
        "--requests",
        type=_whole(1, _MOST_REQUESTS),
        default=100_000,
        metavar="N",
        help="end after this number of requests, such as 20k (default 100k)",
    )
    group.add_argument(
        "--budget-usd",
        type=_between(0.0001, 10_000),
        default=1.0,
        metavar="X",
        help="end before the estimated cost exceeds this (default 1)",
    )
    group.add_argument(
        "--yes",
        action="store_true",
        help="do not ask before a test that may cost more than a dollar",
    )
    group.add_argument(
        "--connections",
        type=_whole(1, 20_000),
        default=1000,
        metavar="N",
        help="the most requests at the same time; others wait (default 1000)",
    )
    group.add_argument(
        "--timeout",
        type=_between(0.1, 900),
        default=60.0,
        metavar="SECONDS",
        help="timeout of a request (default 60)",
    )


def _add_endpoint(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("endpoint")
    group.add_argument(
        "--url", default=os.environ.get(URL_VARIABLE), help=f"default: ${URL_VARIABLE}"
    )
    add_credentials(group)
    group.add_argument(
        "--no-sign",
        dest="sign",
        action="store_false",
        help="the URL is a server: send no signature, and estimate no cost",
    )


def _add_cost(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cost model")
    group.add_argument(
        "--environment",
        metavar="NAME",
        help="read memory, threads, timeout, region and cold starts from environments/NAME.toml",
    )
    group.add_argument(
        "--memory-mb",
        type=_whole(128, 10_240),
        metavar="N",
        help="the function's memory without --environment (default 2048)",
    )
    group.add_argument(
        "--milliseconds",
        type=_between(0.01, 900_000),
        metavar="MS",
        help="the time of a request on one core, for a model without measured times",
    )
    group.add_argument(
        "--slower",
        type=_between(0.01, 100),
        default=1.0,
        metavar="X",
        help="how many times slower the processor is than the measured one (default 1)",
    )


def _add_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print JSON instead of the table")
    group.add_argument(
        "--report",
        type=Path,
        default=Path("embed-load"),
        metavar="FOLDER",
        help="write report.json and report.svg to this folder, replacing them (default embed-load)",
    )


def _between(low: float, high: float) -> Callable[[str], float]:
    def parsed(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"found: {text}; allowed: {low:g} to {high:,.10g}")
        return value

    return parsed


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parsed(text: str) -> int:
        try:
            value = parse_number(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high or value != int(value):
            raise argparse.ArgumentTypeError(
                f"found: {text}; allowed: a whole number from {low} to {high:,}"
            )
        return int(value)

    return parsed


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
