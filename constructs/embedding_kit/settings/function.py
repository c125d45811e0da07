"""The Lambda function's size, limits and VPC, within AWS's limits.

The VPC has the ids of its parts: nothing is looked up at synth.

Sources: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html,
https://docs.aws.amazon.com/lambda/latest/api/API_VpcConfig.html (numbers of a VPC's parts)
"""

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from embedding_kit.settings.base import (
    Distinct,
    Duration,
    EachOnce,
    Listed,
    Settings,
    allowed,
    multiples_of,
    optional,
    rule_error,
)

#: The values that CloudWatch Logs accepts (PutRetentionPolicy).
RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180,
    365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
)  # fmt: skip
_RETENTION_ALLOWED = f"one of {', '.join(map(str, RETENTION_DAYS))}"
#: Lambda keeps this much of the account's concurrency for functions without a reservation.
UNRESERVED_MINIMUM = 100
#: The highest memory per function in a new account; AWS raises it with use or on request.
#: https://docs.aws.amazon.com/lambda/latest/dg/troubleshooting-deployment.html
NEW_ACCOUNT_MEMORY_MB = 3008


class FunctionSettings(Settings):
    """Package, memory, timeout, logs, concurrency, and limits of requests."""

    package: Literal["image", "zip"] = Field(
        default="image",
        description="How the code is deployed: as an `image`, which Docker builds, or as a `zip`, "
        "without Docker. It cannot be changed once deployed.",
    )
    artifact: Literal["package", "s3"] | None = optional(
        "Where the model's artifact of a zip is: in the `package`, or in `s3`, from which the "
        "function downloads it when it is initialized. If unset, in the package if it fits."
    )
    memory_mb: Annotated[int, Field(ge=128, le=10240)] = Field(
        default=2048, description="Memory in MB, of which 1,769 are one vCPU."
    )
    timeout: Annotated[
        Duration,
        multiples_of(
            timedelta(seconds=1),
            timedelta(minutes=15),
            rule="Lambda takes a timeout in whole seconds, up to 15 minutes",
            words="whole seconds, 1s to 15m",
        ),
    ] = Field(
        default=timedelta(seconds=30),
        description="The function's timeout, in whole seconds from 1s to 15m.",
    )
    log_retention_days: Annotated[int, allowed(_RETENTION_ALLOWED)] = Field(
        default=30, description="Retention of logs in days."
    )
    reserved_concurrency: Annotated[int, Field(ge=1)] | None = optional(
        "The highest number of concurrent requests; others get 429. It is taken from the account's "
        "quota."
    )
    account_concurrency: Annotated[int, Field(ge=1)] = Field(
        default=1000, description="The account's quota of concurrent executions in the region."
    )
    truncate: Literal["refuse", "right", "left"] = Field(
        default="refuse",
        description="Whether texts above the model's limit are refused or truncated by default.",
    )
    cache_entries: Annotated[int, Field(ge=0, le=1_000_000)] | None = optional(
        "Number of cached vectors, 0 for none; the embedder's default if unset."
    )
    mcp: bool = Field(
        default=False,
        description="Whether agents may call the endpoint by the Model Context Protocol, at "
        "`POST /mcp`.",
    )

    @property
    def concurrency_limit(self) -> int:
        """The function's highest concurrency: reserved, or else the account's quota."""
        return self.reserved_concurrency or self.account_concurrency

    @field_validator("log_retention_days")
    @classmethod
    def _retention_known(cls, value: int) -> int:
        if value not in RETENTION_DAYS:
            rule = "CloudWatch Logs keeps logs for certain spans only"
            raise rule_error(rule, found=value, allowed=_RETENTION_ALLOWED)
        return value

    @model_validator(mode="after")
    def _reservation_fits_account(self) -> Self:
        limit = self.account_concurrency - UNRESERVED_MINIMUM
        if self.reserved_concurrency is not None and self.reserved_concurrency > limit:
            raise rule_error(
                f"Lambda keeps {UNRESERVED_MINIMUM} of the account's concurrency unreserved",
                found=f"reserved_concurrency = {self.reserved_concurrency} "
                f"of account_concurrency = {self.account_concurrency}",
                allowed=f"1 to {limit}" if limit >= 1 else "none; ask AWS for a higher quota first",
            )
        return self


VpcId = Annotated[
    str, allowed("an id such as vpc-0123456789abcdef0", pattern=r"^vpc-[0-9a-f]{8,17}$")
]
_Subnet = Annotated[
    str,
    allowed("a subnet's id such as subnet-0123456789abcdef0", pattern=r"^subnet-[0-9a-f]{8,17}$"),
]
Subnets = Distinct[_Subnet]
_SecurityGroup = Annotated[
    str,
    allowed("a security group's id such as sg-0123456789abcdef0", pattern=r"^sg-[0-9a-f]{8,17}$"),
]
#: A network interface takes five.
SecurityGroups = Annotated[Listed[_SecurityGroup], Field(max_length=5), EachOnce]


class NetworkSettings(Settings):
    """The VPC of the functions that handle texts, and the default of `[server]`; none if unset."""

    vpc: VpcId = Field(description="The VPC.")
    subnets: Subnets = Field(
        min_length=1,
        max_length=16,
        description="Private subnets, better in two or more Availability Zones. A function has no "
        "public address, so what it calls needs VPC endpoints or a NAT gateway: S3 with `[batch]`, "
        '`[ingest]` and `function.artifact = "s3"`, S3 Vectors with `[index]`, and SQS with '
        "`[ingest]`. Logs and traces need none.",
    )
    security_groups: SecurityGroups = Field(
        default=(),
        description="Up to five existing security groups. If unset, each function gets one that "
        "lets out what the function needs: TCP 443, or nothing.",
    )
