"""The load balancer of a server, its listener and its targets."""

from aws_cdk import Duration
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from constructs import Construct

from embedding_kit.findings import acknowledge
from embedding_kit.hosting import subnets_of
from embedding_kit.service_task import PORT
from embedding_kit.settings import ServerSettings

__all__ = ["add_listener", "make_load_balancer", "make_target_group"]

#: The targets are deregistered first, so a task that gets SIGTERM has only its last requests.
_DEREGISTRATION = Duration.seconds(30)


def make_load_balancer(
    scope: Construct,
    vpc: ec2.IVpc,
    settings: ServerSettings,
    *,
    name: str,
    deletion_protection: bool,
) -> elbv2.ApplicationLoadBalancer:
    """Create the load balancer, which takes requests from the settings' clients only."""
    group = ec2.SecurityGroup(
        scope,
        "LoadBalancerSecurityGroup",
        vpc=vpc,
        description=f"Load balancer of {name}",
        allow_all_outbound=False,
    )
    port = ec2.Port.tcp(443 if settings.certificate else 80)
    for network in settings.clients:
        group.add_ingress_rule(ec2.Peer.ipv4(network), port, "clients")
    made = elbv2.ApplicationLoadBalancer(
        scope,
        "LoadBalancer",
        vpc=vpc,
        vpc_subnets=subnets_of(
            scope, "LoadBalancer", settings.load_balancer_subnets or settings.subnets
        ),
        internet_facing=settings.public,
        security_group=group,
        deletion_protection=deletion_protection,
        drop_invalid_header_fields=True,
    )
    acknowledge(
        made,
        {
            "AwsSolutions-ELB2": "The server's own log has a line for each request to a task.",
        },
    )
    if "0.0.0.0/0" in settings.clients:
        acknowledge(group, {"AwsSolutions-EC23": "By the settings, all addresses are clients."})
    return made


def make_target_group(
    scope: Construct, vpc: ec2.IVpc, service: ecs.FargateService
) -> elbv2.ApplicationTargetGroup:
    """Create the target group of a service's tasks."""
    return elbv2.ApplicationTargetGroup(
        scope,
        "Targets",
        vpc=vpc,
        port=PORT,
        protocol=elbv2.ApplicationProtocol.HTTP,
        targets=[service],
        load_balancing_algorithm_type=(
            elbv2.TargetGroupLoadBalancingAlgorithmType.LEAST_OUTSTANDING_REQUESTS
        ),
        deregistration_delay=_DEREGISTRATION,
        health_check=elbv2.HealthCheck(
            path="/ready",
            interval=Duration.seconds(10),
            timeout=Duration.seconds(5),
            healthy_threshold_count=2,
            unhealthy_threshold_count=3,
        ),
    )


def add_listener(
    scope: Construct,
    load_balancer: elbv2.ApplicationLoadBalancer,
    target_group: elbv2.ApplicationTargetGroup,
    *,
    certificate: str | None,
) -> None:
    """Add the listener: HTTPS with a certificate, HTTP without."""
    listener = load_balancer.add_listener(
        "Listener",
        port=443 if certificate else 80,
        protocol=elbv2.ApplicationProtocol.HTTPS if certificate else elbv2.ApplicationProtocol.HTTP,
        certificates=[acm.Certificate.from_certificate_arn(scope, "Certificate", certificate)]
        if certificate
        else None,
        ssl_policy=elbv2.SslPolicy.TLS13_12_RES_PQ if certificate else None,
        open=False,
        default_target_groups=[target_group],
    )
    # The metrics are those of one task, whichever answers: they are read from the tasks.
    listener.add_action(
        "Metrics",
        priority=1,
        conditions=[elbv2.ListenerCondition.path_patterns(["/metrics"])],
        action=elbv2.ListenerAction.fixed_response(404),
    )
