"""Numbers as people write them."""

import re

__all__ = ["dollars", "number", "parse_number", "percent"]

_UNITS = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)([kMG]?)")


def parse_number(text: str) -> float:
    """Parse a positive number such as 3M, 250k or 1200.

    Raises:
        ValueError: The text is no such number.
    """
    match = _NUMBER.fullmatch(text.replace(",", "").replace("_", ""))
    if match is None or float(match[1]) == 0:
        raise ValueError(f"found: {text}; allowed: a positive number such as 3M, 250k or 1200")
    return float(match[1]) * _UNITS[match[2]]


def number(value: float) -> str:
    """Format an amount with two or three digits and a unit: 3M, 12.5M, 390k."""
    for unit in ("G", "M", "k"):
        if value >= _UNITS[unit] * 0.9995:
            scaled = value / _UNITS[unit]
            return f"{scaled:.3g}{unit}" if scaled < 1000 else f"{scaled:.0f}{unit}"
    return f"{value:.0f}"


def dollars(value: float) -> str:
    """Format US dollars: cents below 1,000, whole dollars above."""
    return f"{value:,.2f}" if abs(value) < 1000 else f"{value:,.0f}"


def percent(share: float) -> str:
    """Format a share with two digits."""
    if 0 < share < 0.0001:
        return "under 0.01%"
    return f"{100 * share:.2g}%" if share < 0.995 else "100%"
