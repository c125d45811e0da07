"""What AWS Lambda costs, with the day and the place of the price: for the dashboard's own sums."""

from dataclasses import dataclass

__all__ = ["LAMBDA_ARM64", "LambdaPrices"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LambdaPrices:
    """List prices in US dollars, before any discount or free tier."""

    #: A GB for a second of a request or a start on demand, the first tier of a month.
    gb_second: float
    #: One request.
    request: float
    #: A GB for a second of an environment that is kept ready.
    ready_gb_second: float
    #: A GB for a second of a request that a ready environment answers.
    ready_running_gb_second: float
    #: A GB for a second of a published version's snapshot, busy or not; three hours at least.
    snapshot_gb_second: float
    #: A GB of a start from a snapshot.
    restore_gb: float
    region: str
    source: str
    #: The month in which the prices were read.
    read: str


LAMBDA_ARM64 = LambdaPrices(
    gb_second=0.0000133334,
    request=0.20 / 1_000_000,
    ready_gb_second=0.0000033334,
    ready_running_gb_second=0.0000077778,
    snapshot_gb_second=0.0000015046,
    restore_gb=0.0001397998,
    region="us-east-1",
    source="https://aws.amazon.com/lambda/pricing/",
    read="2026-11",
)
