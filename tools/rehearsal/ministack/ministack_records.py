"""A record of the resources that MiniStack cannot create, with their resolved properties.

The plugin's own services work with it.
"""

import copy
import json
import os
import pathlib
import uuid
from collections.abc import Callable
from typing import Any

from ministack.core import responses

__all__ = [
    "RECORDED",
    "Created",
    "Properties",
    "forget",
    "keep",
    "record",
    "recorder",
    "records",
]

#: Type → the property with its name (or None), and the format of its `Arn` attribute.
RECORDED = {
    "AWS::ApplicationAutoScaling::ScalableTarget": (None, ""),
    "AWS::ApplicationAutoScaling::ScalingPolicy": (None, ""),
    "AWS::CodeDeploy::Application": (
        "ApplicationName",
        "codedeploy:{region}:{account}:application:{name}",
    ),
    "AWS::CodeDeploy::DeploymentConfig": (
        "DeploymentConfigName",
        "codedeploy:{region}:{account}:deploymentconfig:{name}",
    ),
    "AWS::CodeDeploy::DeploymentGroup": (
        "DeploymentGroupName",
        "codedeploy:{region}:{account}:deploymentgroup:{name}",
    ),
    "AWS::EC2::SecurityGroupEgress": (None, ""),
    "AWS::EC2::SecurityGroupIngress": (None, ""),
    "AWS::Logs::QueryDefinition": (None, ""),
    "AWS::WAFv2::IPSet": (None, "wafv2:{region}:{account}:regional/ipset/{name}/1"),
}

Properties = dict[str, Any]
Created = tuple[str, dict[str, str]]

#: Physical id → {"type", "stack", "logical_id", "properties"}, with resolved references.
records: dict[str, dict[str, Any]] = {}


def recorder(kind: str) -> Callable[[str, Properties, str], Created]:
    """Return the function that creates a resource of a type as a record."""
    name_property, arn = RECORDED[kind]

    def create(logical: str, properties: Properties, stack: str) -> Created:
        name = properties.get(name_property) if name_property else None
        physical = name or _physical_id(kind, properties, f"{stack}-{logical}")
        record(physical, kind, stack, logical, properties)
        place = {"region": responses.get_region(), "account": responses.get_account_id()}
        return physical, {"Arn": "arn:aws:" + arn.format(name=physical, **place)} if arn else {}

    return create


def record(physical: str, kind: str, stack: str, logical: str, properties: Properties) -> None:
    """Record a resource with its resolved properties."""
    records[physical] = {
        "type": kind,
        "stack": stack,
        "logical_id": logical,
        "properties": copy.deepcopy(properties),
    }
    keep()


def _physical_id(kind: str, properties: Properties, fallback: str) -> str:
    """Return the value of `Ref`, in the documented form of each type."""
    if kind == "AWS::ApplicationAutoScaling::ScalableTarget":
        return "|".join(
            properties[key] for key in ("ResourceId", "ScalableDimension", "ServiceNamespace")
        )
    if kind == "AWS::ApplicationAutoScaling::ScalingPolicy":
        place = f"{responses.get_region()}:{responses.get_account_id()}"
        name = f"{uuid.uuid4()}:policyName/{properties['PolicyName']}"
        return f"arn:aws:autoscaling:{place}:scalingPolicy:{name}"
    return fallback


def forget(physical: str, properties: Properties) -> None:
    """Remove the record of a deleted resource."""
    records.pop(physical, None)
    keep()


def keep() -> None:
    """Write the records to the file that the rehearsal reads."""
    if path := os.environ.get("REHEARSAL_RECORDS"):
        pathlib.Path(path).write_text(json.dumps(records, default=str))
