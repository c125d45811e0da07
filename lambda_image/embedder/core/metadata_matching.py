"""Whether metadata matches a filter, as S3 Vectors decides it, for a local index.

The filter is valid: the API has checked it. Imported on demand.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-metadata-filtering.html
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any


def matches(where: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Return whether metadata matches a filter; a list matches as any of its items does."""
    ((key, condition),) = where.items()
    if key == "$and":
        return all(matches(nested, metadata) for nested in condition)
    if key == "$or":
        return any(matches(nested, metadata) for nested in condition)
    value = metadata.get(key)
    values = value if isinstance(value, list) else [] if value is None else [value]
    conditions = condition if isinstance(condition, dict) else {"$eq": condition}
    return all(_OPERATORS[name](values, operand) for name, operand in conditions.items())


def _has(values: list[Any], wanted: Any) -> bool:
    """Return whether a value is equal; true and 1 are not."""
    return any(
        value == wanted and isinstance(value, bool) == isinstance(wanted, bool) for value in values
    )


def _has_any(values: list[Any], wanted: list[Any]) -> bool:
    return any(_has(values, value) for value in wanted)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[list[Any], Any], bool]:
    def holds(values: list[Any], bound: Any) -> bool:
        return any(
            isinstance(value, int | float) and not isinstance(value, bool) and compare(value, bound)
            for value in values
        )

    return holds


#: Operator → whether the values of a key fit the operand.
_OPERATORS: dict[str, Callable[[list[Any], Any], bool]] = {
    "$eq": _has,
    "$ne": lambda values, wanted: not _has(values, wanted),
    "$in": _has_any,
    "$nin": lambda values, wanted: not _has_any(values, wanted),
    "$exists": lambda values, wanted: bool(values) == wanted,
    "$gt": _ordered(operator.gt),
    "$gte": _ordered(operator.ge),
    "$lt": _ordered(operator.lt),
    "$lte": _ordered(operator.le),
}
