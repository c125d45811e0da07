"""Application Auto Scaling's API for the recorded targets; it suspends them, nothing scales.

https://docs.aws.amazon.com/autoscaling/application/APIReference/API_Operations.html
"""

import json
import time
from typing import Any

from ministack.core import responses
from ministack_records import Properties, keep, records

__all__ = ["answer"]


async def answer(
    method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any]
) -> Any:
    """Answer a request to Application Auto Scaling's API."""
    operation = headers.get("x-amz-target", "").rpartition(".")[2]
    asked = json.loads(body or b"{}")
    if operation == "DescribeScalableTargets":
        return responses.json_response({"ScalableTargets": [_target(r) for r in _targets(asked)]})
    if operation == "DescribeScalingPolicies":
        return responses.json_response({"ScalingPolicies": _policies(asked)})
    if operation == "DescribeScheduledActions":
        actions = [
            {
                **_key(record),
                **action,
                "ScheduledActionARN": "arn:aws:autoscaling:recorded",
                "CreationTime": 0,
            }
            for record in _targets(asked)
            for action in record["properties"].get("ScheduledActions", [])
        ]
        return responses.json_response({"ScheduledActions": actions})
    if operation == "RegisterScalableTarget":
        found = _targets(asked)
        for record in found:
            record["properties"]["SuspendedState"] = asked["SuspendedState"]
        keep()
        if found:
            return responses.json_response({"ScalableTargetARN": "arn:aws:autoscaling:recorded"})
        return responses.error_response_json(
            "ValidationException", "only a recorded target is suspended here", 400
        )
    return responses.error_response_json("ValidationException", f"not emulated: {operation}", 400)


def _targets(asked: Properties) -> list[dict[str, Any]]:
    wanted = set(
        asked.get("ResourceIds") or ([asked["ResourceId"]] if asked.get("ResourceId") else [])
    )
    return [
        record
        for record in records.values()
        if record["type"] == "AWS::ApplicationAutoScaling::ScalableTarget"
        and (not wanted or record["properties"]["ResourceId"] in wanted)
        and asked.get("ScalableDimension") in (None, record["properties"]["ScalableDimension"])
    ]


def _policies(asked: Properties) -> list[dict[str, Any]]:
    policies = []
    for physical, record in records.items():
        if record["type"] == "AWS::ApplicationAutoScaling::ScalingPolicy":
            properties = dict(record["properties"])
            if target := properties.pop("ScalingTargetId", None):
                keys = ("ResourceId", "ScalableDimension", "ServiceNamespace")
                properties.update(zip(keys, target.split("|"), strict=True))
            policies.append({**properties, "PolicyARN": physical, "CreationTime": time.time()})
    return [p for p in policies if asked.get("ResourceId") in (None, p["ResourceId"])]


def _key(record: dict[str, Any]) -> dict[str, str]:
    return {
        k: record["properties"][k] for k in ("ServiceNamespace", "ResourceId", "ScalableDimension")
    }


def _target(record: dict[str, Any]) -> dict[str, Any]:
    properties = record["properties"]
    return {
        **_key(record),
        "MinCapacity": int(properties["MinCapacity"]),
        "MaxCapacity": int(properties["MaxCapacity"]),
        "RoleARN": properties.get("RoleARN", ""),
        **{k: properties[k] for k in ("SuspendedState",) if k in properties},
        "CreationTime": time.time(),
    }
