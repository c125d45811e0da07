"""Find the statements that a resource's policy lacks. It is sure of a gap, and not of its absence.

Conditions that it does not know count as met, and statements that deny are not read.
"""

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

__all__ = ["missing_statements"]

Statement = Mapping[str, Any]
_OPERATORS = ("ArnEquals", "ArnLike", "StringEquals", "StringLike")


def missing_statements(
    policy: str | Mapping[str, Any], needed: Sequence[Statement], *, context: Mapping[str, str]
) -> list[Statement]:
    """Return the needed statements whose principal may not do all of their actions.

    Args:
        policy: The policy, as JSON or as AWS's structure.
        needed: Statements with one principal each.
        context: The condition keys whose values are known, with their values.
    """
    found = json.loads(policy) if isinstance(policy, str) else policy
    allowing = [
        statement
        for statement in _listed(found.get("Statement"))
        if statement["Effect"] == "Allow" and _is_met(statement.get("Condition", {}), context)
    ]
    return [statement for statement in needed if not _is_covered(statement, allowing)]


def _is_covered(needed: Statement, allowing: Sequence[Statement]) -> bool:
    patterns = [
        pattern.lower()
        for statement in allowing
        if _names(statement.get("Principal"), needed["Principal"])
        for pattern in _listed(statement.get("Action"))
    ]
    return all(
        any(_overlap(action.lower(), pattern) for pattern in patterns)
        for action in _listed(needed["Action"])
    )


def _overlap(action: str, pattern: str) -> bool:
    """Return whether a pattern allows an action, or one of those that end with a wildcard."""
    stem = action.rstrip("*")
    return fnmatchcase(stem, pattern) or (stem != action and pattern.startswith(stem))


def _names(found: Any, needed: Mapping[str, str]) -> bool:
    """Return whether a statement's principal includes the needed one."""
    if found == "*":
        return True
    ((kind, name),) = needed.items()
    names = _listed(found.get(kind)) if isinstance(found, Mapping) else []
    account = name.split(":")[4] if name.endswith(":root") else None
    return name in names or "*" in names or account in names


def _is_met(conditions: Mapping[str, Mapping[str, Any]], context: Mapping[str, str]) -> bool:
    known = {key.lower(): value for key, value in context.items()}
    return all(
        any(_matches(operator, known[key.lower()], value) for value in _listed(values))
        for operator, tests in conditions.items()
        for key, values in tests.items()
        if key.lower() in known and operator in _OPERATORS
    )


def _matches(operator: str, found: str, wanted: str) -> bool:
    # ArnEquals takes wildcards too.
    return found == wanted if operator == "StringEquals" else fnmatchcase(found, wanted)


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
