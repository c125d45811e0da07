"""The long-lived server: tasks on Fargate behind a load balancer."""

from aws_cdk import Duration, Names
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_logs as logs
from constructs import Construct

from embedding_kit.findings import acknowledge
from embedding_kit.function import request_variables
from embedding_kit.hosting import groups_of, make_log_group, subnets_of, vpc_of
from embedding_kit.service_balancer import add_listener, make_load_balancer, make_target_group
from embedding_kit.service_task import make_task, server_variables
from embedding_kit.settings import FunctionSettings, Model, ServerSettings
from embedding_kit.vector_index import IVectorIndex

__all__ = ["REJECTED_METRIC", "EmbeddingService"]

#: Counts the responses with status 429, which the load balancer counts only among all 4xx.
REJECTED_METRIC = "RejectedRequests"

_HTTPS = 443
#: Loading the largest models of the catalog, from an image that was just pulled.
_START = Duration.minutes(2)
#: CPU utilization above which tasks are added.
_CPU_PERCENT = 60
_SCALE_IN = Duration.minutes(5)
_SCALE_OUT = Duration.minutes(1)


class EmbeddingService(Construct):
    """A server of a model in a VPC, with the APIs and the vectors of an endpoint.

    Callers send an API key, or need none; there is no signature.

    Attributes:
        service: The service of tasks.
        load_balancer: The load balancer.
        target_group: The tasks, as the load balancer's targets.
        log_group: The tasks' log group.
        settings: The settings.
        name: The name in logs and in the metrics' namespace.
        namespace: The namespace of the metrics that are made from the log.
        url: The base URL for callers.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: Model,
        settings: ServerSettings,
        name: str | None = None,
        function: FunctionSettings | None = None,
        vector_index: IVectorIndex | None = None,
        deletion_protection: bool = False,
    ) -> None:
        """Create the service.

        Args:
            scope: The parent.
            id: The construct's id.
            model: The model that embeds; an endpoint with the same model has the same vectors.
            settings: The size, the network and the callers.
            name: The name in logs and in the metrics' namespace; by default derived from the
                construct's path.
            function: The settings of the function beside it; requests are answered alike.
            vector_index: The index in S3 Vectors that the server searches.
            deletion_protection: Whether the load balancer refuses to be deleted.
        """
        super().__init__(scope, id)
        self.settings = settings
        self.name = name or Names.unique_resource_name(self, separator="-", max_length=100)
        self.namespace = f"EmbeddingKit/{self.name}/Server"
        self.log_group = make_log_group(self, "Logs")
        logs.MetricFilter(
            self,
            "Rejected",
            log_group=self.log_group,
            filter_pattern=logs.FilterPattern.literal("{ $.status = 429 }"),
            metric_namespace=self.namespace,
            metric_name=REJECTED_METRIC,
            metric_value="1",
        )
        vpc = vpc_of(self, settings.vpc)
        self.load_balancer = make_load_balancer(
            self, vpc, settings, name=self.name, deletion_protection=deletion_protection
        )
        task = make_task(
            self,
            model=model,
            settings=settings,
            variables=server_variables(settings, self.name)
            | request_variables(function or FunctionSettings()),
            vector_index=vector_index,
            log_group=self.log_group,
        )
        self.service = self._make_service(vpc, task)
        self.target_group = make_target_group(self, vpc, self.service)
        add_listener(self, self.load_balancer, self.target_group, certificate=settings.certificate)
        self._make_scaling()
        scheme = "https" if settings.certificate else "http"
        self.url = f"{scheme}://{settings.domain_name or self.load_balancer.load_balancer_dns_name}"

    def _make_service(self, vpc: ec2.IVpc, task: ecs.FargateTaskDefinition) -> ecs.FargateService:
        cluster = ecs.Cluster(self, "Cluster", vpc=vpc)
        acknowledge(
            cluster,
            {
                "AwsSolutions-ECS4": "The service's CPU and memory are metrics without Container "
                "Insights, and the server has its own.",
            },
        )
        return ecs.FargateService(
            self,
            "Service",
            cluster=cluster,
            task_definition=task,
            vpc_subnets=subnets_of(self, "Task", self.settings.subnets),
            security_groups=groups_of(self, "Task", self.settings.security_groups)
            or [self._make_group(vpc)],
            assign_public_ip=False,
            circuit_breaker=ecs.DeploymentCircuitBreaker(enable=True, rollback=True),
            min_healthy_percent=100,
            max_healthy_percent=200,
            health_check_grace_period=_START,
            propagate_tags=ecs.PropagatedTagSource.SERVICE,
        )

    def _make_group(self, vpc: ec2.IVpc) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self,
            "TaskSecurityGroup",
            vpc=vpc,
            description=f"Tasks of {self.name}",
            allow_all_outbound=False,
        )
        group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(_HTTPS), "AWS services")
        traces = self.settings.otlp_port
        if traces is not None and traces != _HTTPS:
            group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(traces), "traces")
        return group

    def _make_scaling(self) -> None:
        settings = self.settings
        scaling = self.service.auto_scale_task_count(
            min_capacity=settings.minimum, max_capacity=settings.maximum
        )
        scaling.scale_on_cpu_utilization(
            "Cpu",
            target_utilization_percent=_CPU_PERCENT,
            scale_in_cooldown=_SCALE_IN,
            scale_out_cooldown=_SCALE_OUT,
        )
        scaling.scale_on_request_count(
            "Requests",
            requests_per_target=settings.requests_per_target,
            target_group=self.target_group,
            scale_in_cooldown=_SCALE_IN,
            scale_out_cooldown=_SCALE_OUT,
        )
