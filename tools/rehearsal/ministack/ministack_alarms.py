"""Alarms on their own dimensions and on metric math, and composite alarms.

MiniStack evaluates an alarm on every metric of the name, refuses metric math, and makes composite
alarms by its API alone. Here an alarm has one data point for each of its periods, the last of which
ends now. Those that breach and those that are missing decide its state
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html).
Alarms are evaluated when a metric arrives and at each poll of a deployment. An alarm that never had
data keeps the state that was set.
"""

import ast
import operator
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from ministack.services import cloudwatch
from ministack_patches import (
    HANDLERS,
    Created,
    Properties,
    add_handler,
    arn,
    forget,
    record,
    records,
    refused,
    replaces,
)

_KIND = "AWS::CloudWatch::Alarm"
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
}
_COMPARISONS = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "GreaterThanThreshold": operator.gt,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}
#: Whether an alarm is just being made or changed.
_changing = ContextVar("changing", default=False)


# A changed alarm keeps its state until it is evaluated again: "its state is left unchanged",
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html.
@replaces(cloudwatch, "_put_metric_alarm")
def _put(original: Callable[..., Any], *arguments: Any) -> Any:
    token = _changing.set(True)
    try:
        return original(*arguments)
    finally:
        _changing.reset(token)


@replaces(cloudwatch, "_evaluate_alarm")
def _evaluate(_: Callable[..., Any], alarm: dict[str, Any]) -> None:
    recorded = records.get(alarm["AlarmName"], {}).get("properties", {})
    metrics = recorded.get("Metrics") or [_as_query(alarm)]
    if _changing.get() or not any(_points(m) for m in metrics if "MetricStat" in m):
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
    filled_points = [fill if point is None else point for point in points]
    if filled_points.count(True) >= int(
        alarm.get("DatapointsToAlarm") or alarm["EvaluationPeriods"]
    ):
        return "ALARM"
    if False in filled_points:
        return "OK"
    if missing == "ignore":
        return str(alarm["StateValue"])
    return "ALARM" if True in filled_points else "INSUFFICIENT_DATA"


def _as_query(alarm: dict[str, Any]) -> dict[str, Any]:
    """Return a plain alarm's metric in the form of metric math."""
    metric = {key: alarm.get(key) for key in ("Namespace", "MetricName", "Dimensions")}
    stat = alarm.get("ExtendedStatistic") or alarm.get("Statistic", "Average")
    return {"MetricStat": {"Metric": metric, "Stat": stat, "Period": alarm.get("Period", 60)}}


def _values(metrics: list[dict[str, Any]], periods: int) -> Iterator[float | None]:
    """Compute the value of each period, the newest first."""
    time_now = time.time()
    returned = [m.get("Id", "m") for m in metrics if m.get("ReturnData", True)]
    for age in range(periods):
        values: dict[str, float | None] = {}
        for metric in sorted(metrics, key=lambda metric: "Expression" in metric):
            if "MetricStat" in metric:
                value = _statistic(metric, time_now, age)
            else:
                value = _compute(ast.parse(metric["Expression"], mode="eval").body, values)
            values[metric.get("Id", "m")] = value
        yield values[returned[-1]]


def _statistic(metric: dict[str, Any], now: float, age: int) -> float | None:
    """Compute a metric over a period that is so many periods old; None without data."""
    stat = metric["MetricStat"]
    end, period = now - int(stat["Period"]) * age, int(stat["Period"])
    points = [p for p in _points(metric) if end - period < p["Timestamp"] <= end]
    if not points:
        return None
    stats = cloudwatch._calc_stats(points)
    value: float | None = cloudwatch._stat_value(stats, stat["Stat"], points)
    return value


def _points(metric: dict[str, Any]) -> list[dict[str, Any]]:
    named = metric["MetricStat"]["Metric"]
    dimensions = {d["Name"]: str(d["Value"]) for d in named.get("Dimensions") or []}
    key = (named["Namespace"], named["MetricName"], cloudwatch._dims_key(dimensions))
    return list(cloudwatch._metrics.get(key) or [])


# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
def _compute(node: ast.expr, values: Mapping[str, float | None]) -> Any:
    """Compute metric math; None if a value is missing and not filled."""
    match node:
        case ast.Constant(value=number):
            return number
        case ast.Name(id=name):
            return values[name]
        case (
            ast.BinOp(left=left, op=op, right=right)
            | ast.Compare(left=left, ops=[op], comparators=[right])
        ):
            left_values, right_values = _compute(left, values), _compute(right, values)
            if (
                left_values is None
                or right_values is None
                or (isinstance(op, ast.Div) and right_values == 0)
            ):
                return None
            return _OPERATORS[type(op)](left_values, right_values)
        case ast.Call(func=ast.Name(id="IF"), args=[test, yes, no]):
            holds = _compute(test, values)
            return None if holds is None else _compute(yes if holds else no, values)
        case ast.Call(func=ast.Name(id="FILL"), args=[filled, filling]):
            series = _compute(filled, values)
            return _compute(filling, values) if series is None else series
    raise ValueError(f"metric math that is not emulated: {ast.unparse(node)}")


@replaces(HANDLERS[_KIND], "create")
def _create(original: Callable[..., Created], logical: str, given: Properties, stack: str) -> Any:
    if "Metrics" not in given:
        return original(logical, given, stack)
    name = given.get("AlarmName") or f"{stack}-{logical}"
    plain = {key: value for key, value in given.items() if key != "Metrics"}
    refused(cloudwatch._put_metric_alarm({}, _as_call(plain, name), False, True))
    record(name, _KIND, given)
    return name, {"Arn": arn("cloudwatch", f"alarm:{name}")}


@replaces(HANDLERS[_KIND], "update")
def _update(
    original: Callable[..., Created], name: str, old: Properties, new: Properties, *at: str
) -> Any:
    stack, logical = at
    create = HANDLERS[_KIND]["create"]
    return create(logical, new, stack) if "Metrics" in new else original(name, old, new, *at)


@replaces(HANDLERS[_KIND], "delete")
def _delete(original: Callable[..., None], name: str, properties: Properties) -> None:
    forget(name, properties)
    original(name, properties)


def _create_composite(logical: str, properties: Properties, stack: str) -> Created:
    name = properties.get("AlarmName") or f"{stack}-{logical}"
    refused(cloudwatch._put_composite_alarm({}, _as_call(properties, name), False, True))
    return name, {"Arn": arn("cloudwatch", f"alarm:{name}")}


def _delete_composite(name: str, _: Properties) -> None:
    cloudwatch._composite_alarms.pop(name, None)


def _as_call(properties: Properties, name: str) -> Properties:
    """Return an alarm's properties as API parameters, without the stack's tags."""
    tags = [t for t in properties.get("Tags", []) if not t["Key"].startswith("aws:")]
    return {**properties, "AlarmName": name, "Tags": tags}


add_handler("AWS::CloudWatch::CompositeAlarm", _create_composite, _delete_composite)
