"""Where and how functions run: VPC, subnets, security groups, key, tracing and log groups.

https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from aws_cdk import RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from embedding_kit.findings import acknowledge
from embedding_kit.permissions import allow
from embedding_kit.settings import NetworkSettings
from embedding_kit.settings.base import rule_error

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
#: The properties of a function that have their own place, and that place.
_ELSEWHERE = {
    name: home
    for home, names in {
        "the settings of the function": "memory_size timeout ephemeral_storage_size "
        "reserved_concurrent_executions log_retention",
        "Hosting": "vpc vpc_subnets security_groups environment_encryption tracing",
        "the construct's own property": "role log_group snap_start",
        "function.add_environment": "environment",
        "none, as releases and metrics depend on it": "code handler runtime architecture "
        "current_version_options log_format logging_format application_log_level "
        "application_log_level_v2 system_log_level system_log_level_v2",
    }.items()
    for name in names.split()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosting:
    """Resources of the app that a function uses, besides its code.

    Attributes:
        vpc: A VPC. Default: none. The function of an endpoint calls no service other than that of
            its vector index, so subnets without a route to the internet are enough; with an index
            they need an endpoint for S3 Vectors, with an artifact in S3, batch jobs, loads or
            documents a gateway endpoint for S3, and with documents an endpoint for SQS.
        vpc_subnets: The subnets. Default: the CDK's for `vpc`.
        security_groups: The security groups. Default: a new one that lets out what the function
            calls: TCP 443, or nothing.
        environment_encryption: A key for the environment variables of all functions, for the
            bucket of an artifact in S3, and for the queues of documents. Default: AWS's own.
        existing_keys: ARNs of the KMS keys of the buckets that settings name. Default: none.
        tracing: Whether X-Ray traces requests or executions, and bills for it. Default: no.
        function_props: Further properties of `aws_lambda.Function`, by name. Default: none.

    Raises:
        ValueError: Subnets or security groups are given without a VPC, or a property of a function
            has another place or does not exist.
    """

    vpc: ec2.IVpc | None = None
    vpc_subnets: ec2.SubnetSelection | None = None
    security_groups: Sequence[ec2.ISecurityGroup] | None = None
    environment_encryption: kms.IKey | None = None
    existing_keys: Sequence[str] = ()
    tracing: lambda_.Tracing = lambda_.Tracing.DISABLED
    function_props: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        without = {"vpc_subnets": self.vpc_subnets, "security_groups": self.security_groups}
        needing_vpc = [name for name, value in without.items() if value is not None]
        if self.vpc is None and needing_vpc:
            raise rule_error(
                "subnets and security groups belong to a VPC",
                found=f"{' and '.join(needing_vpc)} without vpc",
                allowed="vpc with them, or none of the three",
            )
        properties = inspect.signature(lambda_.FunctionProps).parameters
        for name in self.function_props:
            if name in _ELSEWHERE or name not in properties:
                free = ", ".join(sorted(properties.keys() - _ELSEWHERE.keys()))
                raise rule_error(
                    "function_props has properties of aws_lambda.Function without another place",
                    found=name,
                    allowed=f"its place: {_ELSEWHERE[name]}" if name in _ELSEWHERE else free,
                )

    @property
    def is_traced(self) -> bool:
        """Whether X-Ray traces."""
        return self.tracing is not lambda_.Tracing.DISABLED

    @classmethod
    def in_network(
        cls, scope: Construct, settings: NetworkSettings | None, **properties: Any
    ) -> Self:
        """Return a hosting in the network of an environment's file.

        Nothing is looked up: the ids are those of the settings.

        Args:
            scope: The stack.
            settings: The network; None for no VPC.
            properties: Further properties of a hosting.
        """
        if settings is None:
            return cls(**properties)
        return cls(
            vpc=vpc_of(scope, settings.vpc),
            vpc_subnets=subnets_of(scope, "Function", settings.subnets),
            security_groups=groups_of(scope, "Function", settings.security_groups) or None,
            **properties,
        )


def make_log_group(scope: Construct, id: str, *, name: str | None = None) -> logs.LogGroup:
    """Create a log group that is deleted with its stack: the one place of its retention.

    The log of the function that serves requests has the setting `log_retention_days` instead.
    """
    return logs.LogGroup(
        scope,
        id,
        log_group_name=name,
        retention=logs.RetentionDays.THREE_MONTHS,
        removal_policy=RemovalPolicy.DESTROY,
    )


def vpc_properties(
    scope: Construct, hosting: Hosting, role: iam.IRole, *, description: str, calls_aws: bool
) -> dict[str, Any]:
    """Return the properties that attach a function to its network, and let its role do so.

    Without a VPC there are none. A new security group lets out only a function that `calls_aws`:
    logs and traces are Lambda's own, and use no network of the function.
    """
    if hosting.vpc is None:
        return {}
    allow(role, _INTERFACE_ACTIONS, ["*"])
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
    groups = hosting.security_groups
    if groups is None:
        group = make_group(scope, "SecurityGroup", hosting.vpc, description)
        if calls_aws:
            let_call_aws(group)
        groups = [group]
    return {"vpc": hosting.vpc, "vpc_subnets": hosting.vpc_subnets, "security_groups": groups}


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
        rule = "Annotation::@aws-cdk/aws-ec2:noSubnetRouteTableId"
        acknowledge(subnet, rule, reason="Routes are not needed.")
        subnets.append(subnet)
    return ec2.SubnetSelection(subnets=subnets)


def groups_of(scope: Construct, prefix: str, ids: tuple[str, ...]) -> list[ec2.ISecurityGroup]:
    """Return existing security groups; `prefix` begins the ids of their constructs."""
    return [
        ec2.SecurityGroup.from_security_group_id(scope, f"{prefix}SecurityGroup{number}", group_id)
        for number, group_id in enumerate(ids, start=1)
    ]


def make_group(scope: Construct, id: str, vpc: ec2.IVpc, description: str) -> ec2.SecurityGroup:
    """Create a security group that lets nothing out."""
    return ec2.SecurityGroup(scope, id, vpc=vpc, description=description, allow_all_outbound=False)


def let_call_aws(group: ec2.ISecurityGroup) -> None:
    """Let a security group out to AWS's services."""
    # The addresses of a gateway endpoint are public ones, and those of interface endpoints are
    # not known.
    group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "AWS services")
