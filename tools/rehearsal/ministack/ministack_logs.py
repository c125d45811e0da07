"""Filter patterns of CloudWatch Logs for JSON, which MiniStack takes for patterns that match all.

A message matches if it is JSON and the conditions on its fields hold: comparisons by `=`, `!=`,
`>`, `>=`, `<` and `<=`, joined by `&&` and `||`
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html).
"""

import ast
import json
import operator
import re
from collections.abc import Callable
from typing import Any

from ministack.services import cloudwatch_logs

__all__ = ["PRIVATE_NAMES", "install", "matcher"]

PRIVATE_NAMES = ((cloudwatch_logs, "_compile_filter_pattern"),)

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}


def install() -> None:
    """Match JSON by its fields."""
    compiled = cloudwatch_logs._compile_filter_pattern
    cloudwatch_logs._compile_filter_pattern = lambda pattern: (
        matcher(pattern) if pattern.strip().startswith("{") else compiled(pattern)
    )


def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that says whether a message matches.

    Raises:
        ValueError: The pattern has something that is not emulated.
    """
    # As Python writes it, with the field as the key of a dictionary.
    text = re.sub(r"\$\.([\w.]+)", r'_["\1"]', pattern.strip()[1:-1])
    text = re.sub(r"(?<![<>!=])=", "==", text).replace("&&", " and ").replace("||", " or ")
    tree = ast.parse(text.strip(), mode="eval").body

    def matches(message: str) -> bool:
        try:
            document = json.loads(message)
        except ValueError:
            return False
        return isinstance(document, dict) and _holds(tree, document)

    return matches


def _holds(node: ast.expr, document: dict[str, Any]) -> bool:
    match node:
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_holds(value, document) for value in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(_holds(value, document) for value in values)
        case ast.Compare(
            left=ast.Subscript(slice=ast.Constant(value=str() as path)),
            ops=[op],
            comparators=[ast.Constant(value=wanted)],
        ):
            found = _field(document, path)
            # Another type than that of the value does not match.
            numbers = isinstance(found, int | float) and isinstance(wanted, int | float)
            same = numbers or (isinstance(found, str) and isinstance(wanted, str))
            return same and _COMPARISONS[type(op)](found, wanted)
    message = f"not emulated: {ast.dump(node)}"
    raise ValueError(message)


def _field(document: Any, path: str) -> Any:
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    return document
