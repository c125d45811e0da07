"""The VPC of functions and services, by the ids of its parts: nothing is looked up at synth.

Source: https://docs.aws.amazon.com/lambda/latest/api/API_VpcConfig.html (numbers)
"""

from typing import Annotated

from pydantic import Field

from embedding_kit.settings.base import Distinct, EachOnce, Listed, Settings, allowed

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
    subnets: Annotated[Subnets, Field(min_length=1, max_length=16)] = Field(
        description="Private subnets, better in two or more Availability Zones. A function has no "
        "public address, so what it calls needs VPC endpoints or a NAT gateway: S3 with `[batch]` "
        'and `function.artifact = "s3"`, S3 Vectors with `[index]`. Logs and traces need none.'
    )
    security_groups: SecurityGroups = Field(
        default=(),
        description="Up to five existing security groups. If unset, each function gets one that "
        "lets out what the function needs: TCP 443, or nothing.",
    )
