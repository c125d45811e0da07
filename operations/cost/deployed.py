"""What stays in an environment without a request, counted in its synthesized templates."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from embedding_kit.environment import Environment
from embedding_kit.prices import LineItem, Prices, priced
from embedding_kit.settings import artifact_in_s3
from embedding_kit.settings.model_sizes import artifact_bytes
from embedding_kit.settings.package import LARGEST_ARTIFACT

__all__ = ["FREE", "Resource", "StoredZip", "deployed_items", "free_items", "stored_zip"]

#: A resource of a template: its type and its properties.
Resource = Mapping[str, Any]
#: An image with a model of up to 300 MB, as the registry stores it.
_IMAGE_GB = 0.5
#: The packages and the code of a zip, compressed, as `scripts/bench zip` measures them.
_ZIP_GB = 0.026
#: What an account has free in every month, by the unit of a price:
#: https://aws.amazon.com/cloudwatch/pricing/
FREE = {"alarm metric-month": 10, "metric-month": 10, "dashboard-month": 3}
#: A dashboard of more metrics is never free.
_FREE_METRICS = 50


@dataclass(frozen=True, slots=True)
class StoredZip:
    """What S3 stores of one version of a zip, in GB."""

    zip_gb: float
    #: The artifact next to it; 0 if it is in the zip.
    artifact_gb: float


def stored_zip(environment: Environment) -> StoredZip:
    """Return what S3 stores of an environment's zip; an artifact of unknown size is the largest."""
    model = environment.model
    size = artifact_bytes(model)
    if artifact_in_s3(model, environment.function):
        return StoredZip(_ZIP_GB, _IMAGE_GB if size is None else size / 1e9)
    return StoredZip(_ZIP_GB + (LARGEST_ARTIFACT if size is None else size) / 1e9, 0)


def deployed_items(
    environment: Environment, resources: Sequence[Resource], prices: Prices
) -> tuple[LineItem, ...]:
    """Return what watches over the endpoint, its keys, and the storage of its image or zip.

    A key of your own is billed where it was created.

    Args:
        environment: The environment.
        resources: The resources of its templates.
        prices: The prices of its region.
    """
    kinds = [resource["Type"] for resource in resources]
    metrics = sum(map(_alarm_metrics, _of("CloudWatch::Alarm", resources)))
    counted = (
        ("alarm", "alarms, by metrics", metrics),
        ("composite_alarm", "composite alarm", kinds.count("AWS::CloudWatch::CompositeAlarm")),
        ("dashboard", "dashboard", kinds.count("AWS::CloudWatch::Dashboard")),
        ("key", "key of the topic", kinds.count("AWS::KMS::Key")),
    )
    return (
        *(priced(prices, line, name, count) for line, name, count in counted if count),
        *_package_items(environment, prices),
    )


def free_items(items: Iterable[LineItem], resources: Sequence[Resource]) -> tuple[LineItem, ...]:
    """Return what CloudWatch's free tier takes off a bill, if nothing else of the account uses it.

    Args:
        items: The items of the bill.
        resources: The resources of the environment's templates.
    """
    free = dict(FREE)
    if any(map(_is_large, _of("CloudWatch::Dashboard", resources))):
        del free["dashboard-month"]
    found = []
    for item in items:
        amount = min(item.amount, free.get(item.unit, 0))
        if amount:
            usd = -item.usd * amount / item.amount
            found.append(LineItem(item.name, -amount, item.unit, usd))
    return tuple(found)


def _of(kind: str, resources: Sequence[Resource]) -> Iterator[Mapping[str, Any]]:
    return (resource["Properties"] for resource in resources if resource["Type"] == f"AWS::{kind}")


def _alarm_metrics(alarm: Mapping[str, Any]) -> int:
    """Return how many metrics an alarm reads, of which each is billed."""
    # An alarm on one metric names it directly.
    return sum("MetricStat" in metric for metric in alarm.get("Metrics", [])) or 1


def _is_large(dashboard: Mapping[str, Any]) -> bool:
    _, parts = dashboard["DashboardBody"]["Fn::Join"]
    body = json.loads("".join(part if isinstance(part, str) else "-" for part in parts))
    shown = [
        metric
        for widget in body["widgets"]
        for metric in widget["properties"].get("metrics", [])
        if isinstance(metric[0], str)  # An expression begins with its options.
    ]
    return len(shown) > _FREE_METRICS


def _package_items(environment: Environment, prices: Prices) -> tuple[LineItem, ...]:
    if environment.function.package == "image":
        return (priced(prices, "image_storage", "image", _IMAGE_GB),)
    stored = stored_zip(environment)
    zipped = priced(prices, "storage", "zip", stored.zip_gb)
    if not stored.artifact_gb:
        return (zipped,)
    return (zipped, priced(prices, "storage", "artifact in S3", stored.artifact_gb))
