"""The network of functions and services: a VPC, its subnets and security groups.

https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from embedding_kit.findings import acknowledge
from embedding_kit.settings import NetworkSettings
from embedding_kit.settings.base import rule_error

__all__ = [
    "Network",
    "groups_of",
    "network_properties",
    "subnets_of",
    "vpc_of",
    "vpc_properties",
]

#: Lambda manages a function's network interfaces with these permissions of its role, those of the
#: managed policy AWSLambdaVPCAccessExecutionRole less the ones for logs.
_INTERFACE_ACTIONS = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The VPC that a function is attached to; by default none.

    Raises:
        ValueError: Subnets or security groups are given without a VPC.
    """

    vpc: ec2.IVpc | None = None
    subnets: ec2.SubnetSelection | None = None
    security_groups: Sequence[ec2.ISecurityGroup] | None = None

    def __post_init__(self) -> None:
        without = {"vpc_subnets": self.subnets, "security_groups": self.security_groups}
        found = [name for name, value in without.items() if value is not None]
        if self.vpc is None and found:
            raise rule_error(
                "subnets and security groups belong to a VPC",
                found=f"{' and '.join(found)} without vpc",
                allowed="vpc beside them, or none of the three",
            )


def network_properties(scope: Construct, settings: NetworkSettings | None) -> dict[str, Any]:
    """Return the settings as the properties `vpc`, `vpc_subnets` and `security_groups`.

    Nothing is looked up: the ids are those of the settings.
    """
    if settings is None:
        return {}
    return {
        "vpc": vpc_of(scope, settings.vpc),
        "vpc_subnets": subnets_of(scope, "Function", settings.subnets),
        "security_groups": groups_of(scope, "Function", settings.security_groups) or None,
    }


def vpc_properties(
    scope: Construct, network: Network, role: iam.IRole, *, description: str, calls_aws: bool
) -> dict[str, Any]:
    """Return the properties that attach a function to its network, and let its role do so.

    Args:
        scope: The parent of a new security group.
        network: The network; nothing is returned or made without a VPC.
        role: The function's execution role.
        description: The description of a new security group.
        calls_aws: Whether the function's code calls AWS; otherwise a new security group lets
            nothing out. Logs and traces are Lambda's own, and use no network of the function.
    """
    if network.vpc is None:
        return {}
    role.add_to_principal_policy(iam.PolicyStatement(actions=_INTERFACE_ACTIONS, resources=["*"]))
    # Lambda's own calls for the interfaces lack this key, and those of the function's code have it.
    # https://docs.aws.amazon.com/lambda/latest/dg/permissions-source-function-arn.html
    role.add_to_principal_policy(
        iam.PolicyStatement(
            sid="NotTheCode",
            effect=iam.Effect.DENY,
            actions=_INTERFACE_ACTIONS,
            resources=["*"],
            conditions={"Null": {"lambda:SourceFunctionArn": "false"}},
        )
    )
    groups = network.security_groups
    if groups is None:
        groups = [_new_group(scope, network.vpc, description, calls_aws=calls_aws)]
    return {"vpc": network.vpc, "vpc_subnets": network.subnets, "security_groups": groups}


def vpc_of(scope: Construct, vpc_id: str) -> ec2.IVpc:
    """Return the VPC."""
    # A look-up would call AWS at synth. The zones are in no template: the subnets decide.
    return ec2.Vpc.from_vpc_attributes(
        scope, "Vpc", vpc_id=vpc_id, availability_zones=["of the subnets"]
    )


def subnets_of(scope: Construct, prefix: str, ids: tuple[str, ...]) -> ec2.SubnetSelection:
    """Return the subnets; `prefix` begins the ids of their constructs."""
    subnets = []
    for number, subnet_id in enumerate(ids, start=1):
        subnet = ec2.Subnet.from_subnet_id(scope, f"{prefix}Subnet{number}", subnet_id)
        acknowledge(
            subnet, {"Annotation::@aws-cdk/aws-ec2:noSubnetRouteTableId": "Routes are not needed."}
        )
        subnets.append(subnet)
    return ec2.SubnetSelection(subnets=subnets)


def groups_of(scope: Construct, prefix: str, ids: tuple[str, ...]) -> list[ec2.ISecurityGroup]:
    """Return security groups of your own; `prefix` begins the ids of their constructs."""
    return [
        ec2.SecurityGroup.from_security_group_id(scope, f"{prefix}SecurityGroup{number}", group_id)
        for number, group_id in enumerate(ids, start=1)
    ]


def _new_group(
    scope: Construct, vpc: ec2.IVpc, description: str, *, calls_aws: bool
) -> ec2.SecurityGroup:
    group = ec2.SecurityGroup(
        scope, "SecurityGroup", vpc=vpc, description=description, allow_all_outbound=False
    )
    if calls_aws:
        # The addresses of a gateway endpoint are public ones, and those of interface endpoints are
        # not known.
        group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "AWS services")
    return group
