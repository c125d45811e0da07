"""AWS Lambda's list prices with their region and date, for the dashboard's cost estimates."""

from dataclasses import dataclass

__all__ = ["LAMBDA_ARM64", "LambdaPrices"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LambdaPrices:
    """List prices in US dollars, before any discount or free tier."""

    #: Duration on demand, per GB-second, in the first tier of a month.
    gb_second: float
    #: One request.
    request: float
    #: Provisioned concurrency, per GB-second.
    provisioned_gb_second: float
    #: Duration under provisioned concurrency, per GB-second.
    provisioned_duration_gb_second: float
    #: SnapStart's cache of a published version, per GB-second; at least three hours are billed.
    snapshot_gb_second: float
    #: SnapStart's restore, per GB.
    restore_gb: float
    region: str
    source: str
    #: The month in which the prices were read.
    read: str


LAMBDA_ARM64 = LambdaPrices(
    gb_second=0.0000133334,
    request=0.20 / 1_000_000,
    provisioned_gb_second=0.0000033334,
    provisioned_duration_gb_second=0.0000077778,
    snapshot_gb_second=0.0000015046,
    restore_gb=0.0001397998,
    region="us-east-1",
    source="https://aws.amazon.com/lambda/pricing/",
    read="2026-11",
)
