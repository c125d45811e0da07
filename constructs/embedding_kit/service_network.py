"""The network of a server: its VPC and subnets, by their ids."""

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from embedding_kit.findings import acknowledge

__all__ = ["subnets_of", "vpc_of"]


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
