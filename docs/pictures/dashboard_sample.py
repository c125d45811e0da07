"""Made-up data for the dashboard's picture: a working day with 15 slow minutes."""

import math

__all__ = ["MINUTES", "rows", "series", "single_value"]

#: The picture shows three hours.
MINUTES = 180

#: The usual level of each line, by metric and statistic, or by label for an expression.
_LEVELS = {
    "UrlRequestCount Sum": 620,
    "Url4xxCount Sum": 6,
    "Url5xxCount Sum": 0.4,
    "Errors Sum": 0.3,
    "Throttles Sum": 0,
    "Errors, percent": 0.05,
    "Texts": 38,
    "Texts from cache": 9,
    "Tokens": 1900,
    "Duration p50": 38,
    "Duration p90": 71,
    "Duration p99": 190,
    "Duration Maximum": 420,
    "UrlRequestLatency p50": 44,
    "UrlRequestLatency p90": 79,
    "UrlRequestLatency p99": 205,
    "TokenizationTime p50": 0.4,
    "InferenceTime p50": 34,
    "InferenceTime p99": 160,
    "PaddingWaste Average": 4,
    "BatchSize Average": 3.7,
    "InitDuration p50": 310,
    "InitDuration p99": 640,
    "InitDuration Maximum": 900,
    "InitDuration SampleCount": 2.4,
    "RestoreDuration SampleCount": 0,
    "ProvisionedInitDuration SampleCount": 0,
    "ColdStarts Sum": 2.4,
    "Percent": 0.4,
    "ConcurrentExecutions Maximum": 9,
    "ConcurrentExecutions Maximum of the account": 21,
    "MaxMemoryUsed p50": 410,
    "MaxMemoryUsed Maximum": 690,
    "US dollars per hour": 0.021,
    "US dollars per 1,000 embeddings": 0.00016,
}

_ROWS = {
    "Slowest requests": (
        "11:02:41     612 ms   16 texts   7,310 tokens   openai   200",
        "11:01:07     598 ms   16 texts   6,122 tokens   openai   200",
        "10:58:50     540 ms     1 text     2,048 tokens   native   200",
        "11:03:12     471 ms     8 texts   3,004 tokens   tei         200",
    ),
    "Cold starts": (
        "11:02:39   init 402 ms   318 MB",
        "11:02:38   init 371 ms   318 MB",
        "10:41:05   init 298 ms   317 MB",
        "10:17:44   init 305 ms   317 MB",
    ),
}


def rows(title: str) -> tuple[str, ...]:
    """Return the first rows of a query's result."""
    return _ROWS[title]


def series(key: str, *, line: int) -> list[float]:
    """Return a value for each minute of a line.

    Args:
        key: Metric and statistic, or an expression's label.
        line: The line's position in its graph, so that no two lines are the same.

    Raises:
        KeyError: The dashboard shows a line that has no made-up data.
    """
    level = _LEVELS[key]
    return [level * _shape(minute, line) for minute in range(MINUTES)]


def single_value(key: str) -> str:
    """Return the value of a single-value widget."""
    return f"${_LEVELS[key]:.5f}"


def _shape(minute: int, line: int) -> float:
    day = 1 + 0.25 * math.sin(minute / 40 + 0.3 * line)
    noise = 0.07 * math.sin(minute * 2.7 + line) + 0.05 * math.sin(minute * 7.1 + 2 * line)
    slow = 0.6 * math.exp(-(((minute - 120) / 6) ** 2))
    return day + noise + slow
