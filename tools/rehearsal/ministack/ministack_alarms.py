"""Alarms with dimensions and metric math.

MiniStack evaluates an alarm on every metric of the name, without dimensions or metric math.
This module evaluates the alarm's own metrics, with the arithmetic, comparisons, `IF` and `FILL` of
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html.

An alarm has one data point for each of its periods, the last of which ends now. Those that breach
and those that are missing decide its state
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html). A
changed alarm keeps its state until it is evaluated again, as on AWS ("its state is left unchanged",
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html). Alarms
are evaluated when a metric arrives and at each poll of a deployment. An alarm that never had data
keeps the state that was set.
"""

import ast
import functools
import operator
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ministack.services import cloudwatch

__all__ = ["PRIVATE_NAMES", "evaluate_all", "evaluate_expression", "install"]

PRIVATE_NAMES = (
    (cloudwatch, "_calc_stats"),
    (cloudwatch, "_dims_key"),
    (cloudwatch, "_evaluate_alarm"),
    (cloudwatch, "_evaluate_all_alarms"),
    (cloudwatch, "_metrics"),
    (cloudwatch, "_put_metric_alarm"),
    (cloudwatch, "_set_alarm_state"),
    (cloudwatch, "_stat_value"),
)

_COMPARISONS = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "GreaterThanThreshold": operator.gt,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}
_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def install(metric_math: Callable[[str], list[dict[str, Any]]]) -> None:
    """Evaluate alarms on their own metrics.

    Args:
        metric_math: Returns the `Metrics` of an alarm's template; empty for a plain alarm.
    """
    put, evaluate = cloudwatch._put_metric_alarm, functools.partial(_evaluate, metric_math)

    def kept(*arguments: Any) -> Any:
        # Creating or changing an alarm does not evaluate it.
        cloudwatch._evaluate_alarm = lambda _alarm: None
        try:
            return put(*arguments)
        finally:
            cloudwatch._evaluate_alarm = evaluate

    cloudwatch._put_metric_alarm = kept
    cloudwatch._evaluate_alarm = evaluate


def evaluate_all() -> None:
    """Evaluate every alarm, as CloudWatch does once a minute."""
    cloudwatch._evaluate_all_alarms()


def evaluate_expression(expression: str, values: Mapping[str, float | None]) -> float | None:
    """Compute metric math; return None if a value is missing and not filled.

    Raises:
        ValueError: The expression uses something that is not emulated.
    """
    value: float | None = _compute(ast.parse(expression.strip(), mode="eval").body, values)
    return value


def _compute(node: ast.expr, values: Mapping[str, float | None]) -> Any:
    value: Any
    match node:
        case ast.Constant(value=int() | float() as number):
            value = number
        case ast.Name(id=name):
            value = values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            value = _apply(operator.sub, 0, _compute(operand, values))
        case (
            ast.BinOp(left=left, op=op, right=right)
            | ast.Compare(left=left, ops=[op], comparators=[right])
        ) if type(op) in _OPERATORS:
            value = _apply(_OPERATORS[type(op)], _compute(left, values), _compute(right, values))
        case ast.Call(func=ast.Name(id="IF"), args=[test, yes, no]):
            holds = _compute(test, values)
            value = None if holds is None else _compute(yes if holds else no, values)
        case ast.Call(func=ast.Name(id="FILL"), args=[filled, filling]):
            found = _compute(filled, values)
            value = _compute(filling, values) if found is None else found
        case _:
            raise ValueError(f"metric math that is not emulated: {ast.unparse(node)}")
    return value


def _apply(compute: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if left is None or right is None or (compute is operator.truediv and right == 0):
        return None
    return compute(left, right)


def _evaluate(metric_math: Callable[[str], list[dict[str, Any]]], alarm: dict[str, Any]) -> None:
    metrics = metric_math(alarm["AlarmName"]) or [_as_query(alarm)]
    if not any(_points(metric) for metric in metrics if "MetricStat" in metric):
        return
    breaches = _COMPARISONS[alarm["ComparisonOperator"]]
    points = [
        None if value is None else breaches(value, float(alarm["Threshold"]))
        for value in _values(metrics, int(alarm["EvaluationPeriods"]))
    ]
    state = _state(points, alarm)
    if state != alarm["StateValue"]:
        reason = f"{points} of {alarm['ComparisonOperator']} {alarm['Threshold']}"
        change = {"AlarmName": alarm["AlarmName"], "StateValue": state, "StateReason": reason}
        cloudwatch._set_alarm_state({}, change, False, True)


def _state(points: list[bool | None], alarm: dict[str, Any]) -> str:
    """Return the state by the points that breach; None is a point without data."""
    missing = alarm.get("TreatMissingData", "missing")
    fill = {"breaching": True, "notBreaching": False}.get(missing)
    known = [fill if point is None else point for point in points]
    wanted = int(alarm.get("DatapointsToAlarm") or alarm["EvaluationPeriods"])
    if known.count(True) >= wanted:
        return "ALARM"
    if False in known:
        return "OK"
    if missing == "ignore":
        return str(alarm["StateValue"])
    return "ALARM" if True in known else "INSUFFICIENT_DATA"


def _as_query(alarm: dict[str, Any]) -> dict[str, Any]:
    """Return a plain alarm's metric in the form of metric math."""
    metric = {key: alarm.get(key) for key in ("Namespace", "MetricName", "Dimensions")}
    stat = alarm.get("ExtendedStatistic") or alarm.get("Statistic", "Average")
    return {"MetricStat": {"Metric": metric, "Stat": stat, "Period": alarm.get("Period", 60)}}


def _values(metrics: list[dict[str, Any]], periods: int) -> Iterator[float | None]:
    """Compute the value of each period, the newest first."""
    now = time.time()
    returned = [m.get("Id", "m") for m in metrics if m.get("ReturnData", True)]
    for age in range(periods):
        values: dict[str, float | None] = {}
        for metric in metrics:
            if "MetricStat" in metric:
                values[metric.get("Id", "m")] = _statistic(metric, now, age)
        for metric in metrics:
            if "Expression" in metric:
                values[metric["Id"]] = evaluate_expression(metric["Expression"], values)
        yield values[returned[-1]]


def _statistic(metric: dict[str, Any], now: float, age: int) -> float | None:
    """Compute a metric over a period that is so many periods old."""
    stat = metric["MetricStat"]
    end = now - int(stat["Period"]) * age
    points = [p for p in _points(metric) if end - int(stat["Period"]) < p["Timestamp"] <= end]
    if not points:
        return None
    value: float | None = cloudwatch._stat_value(
        cloudwatch._calc_stats(points), stat["Stat"], points
    )
    return value


def _points(metric: dict[str, Any]) -> list[dict[str, Any]]:
    named = metric["MetricStat"]["Metric"]
    dimensions = {d["Name"]: str(d["Value"]) for d in named.get("Dimensions") or []}
    key = (named["Namespace"], named["MetricName"], cloudwatch._dims_key(dimensions))
    return list(cloudwatch._metrics.get(key) or [])
