"""The VPC of functions and services, by the ids of its parts: nothing is looked up at synth.

Source: https://docs.aws.amazon.com/lambda/latest/api/API_VpcConfig.html (numbers)
"""

from typing import Annotated

from pydantic import Field

from embedding_kit.settings.base import EachOnce, Settings, allowed

VpcId = Annotated[
    str,
    Field(pattern=r"^vpc-[0-9a-f]{8,17}$"),
    allowed("an id such as vpc-0123456789abcdef0"),
]
_Subnet = Annotated[
    str,
    Field(pattern=r"^subnet-[0-9a-f]{8,17}$"),
    allowed("a subnet's id such as subnet-0123456789abcdef0"),
]
Subnets = Annotated[tuple[_Subnet, ...], EachOnce]
_SecurityGroup = Annotated[
    str,
    Field(pattern=r"^sg-[0-9a-f]{8,17}$"),
    allowed("a security group's id such as sg-0123456789abcdef0"),
]
#: A network interface takes five.
SecurityGroups = Annotated[tuple[_SecurityGroup, ...], Field(max_length=5), EachOnce]


class NetworkSettings(Settings):
    """The VPC of the functions that handle texts, and the default of `[server]`; none if unset."""

    vpc: VpcId = Field(description="The VPC.")
    subnets: Annotated[Subnets, Field(min_length=1, max_length=16)] = Field(
        strict=False,
        description="Private subnets, better in two or more Availability Zones. A function has no "
        "public address, so what it calls needs VPC endpoints or a NAT gateway: S3 with `[batch]` "
        'and `function.artifact = "s3"`, S3 Vectors with `[index]`. Logs and traces need none.',
    )
    security_groups: SecurityGroups = Field(
        default=(),
        strict=False,
        description="Up to five existing security groups. If unset, each function gets one that "
        "lets out what the function needs: TCP 443, or nothing.",
    )
