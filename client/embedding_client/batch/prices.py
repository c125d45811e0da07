"""What a batch job costs on AWS, estimated from list prices."""

from dataclasses import dataclass

__all__ = ["PRICES", "BatchPrices", "estimated_cost"]

#: A child execution uses less than 64 MB, which is the least that is billed.
_EXPRESS_GB = 64 / 1024
#: Requests to S3 for a shard: the part and the record of its run; and, with the last step's, about
#: so many reads.
_S3_WRITES = 2
_S3_READS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPrices:
    """List prices in US dollars, in the first tier of a month, before any discount or free tier."""

    #: Lambda's duration on ARM, per GB-second.
    lambda_gb_second: float
    lambda_request: float
    #: Step Functions' EXPRESS executions, which are the children of the map.
    express_request: float
    express_gb_second: float
    #: S3's PUT and GET requests.
    s3_write: float
    s3_read: float
    region: str
    sources: tuple[str, ...]
    #: The month in which the prices were read.
    read: str


PRICES = BatchPrices(
    lambda_gb_second=0.0000133334,
    lambda_request=0.20 / 1_000_000,
    express_request=1.00 / 1_000_000,
    express_gb_second=0.06 / 3600,
    s3_write=0.005 / 1000,
    s3_read=0.0004 / 1000,
    region="us-east-1",
    sources=(
        "https://aws.amazon.com/lambda/pricing/",
        "https://aws.amazon.com/step-functions/pricing/",
        "https://aws.amazon.com/s3/pricing/",
    ),
    read="2026-11",
)


def estimated_cost(
    *, runs: int, seconds: float, gb_seconds: float, prices: BatchPrices = PRICES
) -> float:
    """Return US dollars for runs of shards.

    Not included: Plan and Finish, cold starts, runs that failed, logs, and storage.

    Args:
        runs: How many runs.
        seconds: Their duration in all.
        gb_seconds: The same, each run's times the function's memory.
        prices: List prices.
    """
    return (
        gb_seconds * prices.lambda_gb_second
        + seconds * _EXPRESS_GB * prices.express_gb_second
        + runs * (prices.lambda_request + prices.express_request)
        + runs * (_S3_WRITES * prices.s3_write + _S3_READS * prices.s3_read)
    )
