"""The long-lived server: tasks on Fargate behind a load balancer."""

from collections.abc import Sequence
from typing import Any

from aws_cdk import Aws, Duration, Names
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from aws_cdk import aws_logs as logs
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from embedding_kit.findings import acknowledge, acknowledge_wildcard
from embedding_kit.function import request_variables
from embedding_kit.hosting import (
    groups_of,
    let_call_aws,
    make_group,
    make_log_group,
    subnets_of,
    vpc_of,
)
from embedding_kit.package import server_image
from embedding_kit.permissions import READ_KEY, allow
from embedding_kit.programs import contract
from embedding_kit.settings import FunctionSettings, ModelSettings, ServerSettings
from embedding_kit.vector_index import IVectorIndex

#: The targets are deregistered first, so a task that gets SIGTERM has only its last requests.
_DEREGISTRATION = Duration.seconds(30)
#: Where the server listens.
_PORT = 8080
#: Longer than the server's own drain of 25 s; Fargate allows 120.
#: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task_definition_parameters.html
_STOP_TIMEOUT = Duration.seconds(40)


def _server_variables(settings: ServerSettings, name: str) -> dict[str, str]:
    """Return the variables of the server alone; `name` is in its logs and traces."""
    variables = {
        contract().variables["environment"]: name,
        "EMBEDDING_SERVER_PORT": str(_PORT),
        # A task sees the cores of the machine that it shares.
        "EMBEDDING_SERVER_WORKERS": str(max(1, settings.cpu // 1024)),
    }
    if settings.no_keys:
        variables["EMBEDDING_SERVER_NO_KEYS"] = "true"
    if settings.otlp_endpoint:
        # https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
        variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = settings.otlp_endpoint
        variables["OTEL_RESOURCE_ATTRIBUTES"] = f"deployment.environment.name={name}"
    return variables


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

    Args:
        model: The model that embeds; an endpoint with the same model has the same vectors.
        settings: The size, the network and the callers.
        name: The name in logs and in the metrics' namespace; by default derived from the
            construct's path.
        function: The settings of the function next to it; requests are answered alike.
        vector_index: The index in S3 Vectors that the server searches.
        existing_keys: ARNs of KMS keys, of which one may encrypt the secret of the API keys.
        deletion_protection: Whether the load balancer refuses to be deleted.

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
        model: ModelSettings,
        settings: ServerSettings,
        name: str | None = None,
        function: FunctionSettings | None = None,
        vector_index: IVectorIndex | None = None,
        existing_keys: Sequence[str] = (),
        deletion_protection: bool = False,
    ) -> None:
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
        self.load_balancer = self._make_load_balancer(vpc, deletion_protection=deletion_protection)
        variables = _server_variables(settings, self.name)
        variables |= request_variables(function or FunctionSettings())
        task = self._make_task(model, variables, vector_index, existing_keys)
        self.service = self._make_service(vpc, task)
        self.target_group = self._make_target_group(vpc)
        self._add_listener()
        self._make_scaling()
        scheme = "https" if settings.certificate else "http"
        self.url = f"{scheme}://{settings.domain_name or self.load_balancer.load_balancer_dns_name}"

    def _make_load_balancer(
        self, vpc: ec2.IVpc, *, deletion_protection: bool
    ) -> elbv2.ApplicationLoadBalancer:
        """Create the load balancer, which takes requests from the settings' clients only."""
        settings = self.settings
        description = f"Load balancer of {self.name}"
        group = make_group(self, "LoadBalancerSecurityGroup", vpc, description)
        port = ec2.Port.tcp(443 if settings.certificate else 80)
        for network in settings.clients:
            group.add_ingress_rule(ec2.Peer.ipv4(network), port, "clients")
        load_balancer = elbv2.ApplicationLoadBalancer(
            self,
            "LoadBalancer",
            vpc=vpc,
            vpc_subnets=subnets_of(
                self, "LoadBalancer", settings.load_balancer_subnets or settings.subnets
            ),
            internet_facing=settings.public,
            security_group=group,
            deletion_protection=deletion_protection,
            drop_invalid_header_fields=True,
        )
        reason = "The server's own log has a line for each request to a task."
        acknowledge(load_balancer, "AwsSolutions-ELB2", reason=reason)
        if "0.0.0.0/0" in settings.clients:
            reason = "By the settings, all addresses are clients."
            acknowledge(group, "AwsSolutions-EC23", reason=reason)
        return load_balancer

    def _make_task(
        self,
        model: ModelSettings,
        variables: dict[str, str],
        vector_index: IVectorIndex | None,
        existing_keys: Sequence[str],
    ) -> ecs.FargateTaskDefinition:
        settings = self.settings
        secrets: dict[str, ecs.Secret] = {}
        if settings.keys_secret:
            keys = secretsmanager.Secret.from_secret_complete_arn(
                self, "Keys", settings.keys_secret
            )
            secrets["EMBEDDING_SERVER_KEYS"] = ecs.Secret.from_secrets_manager(keys)
        if vector_index:
            variables = variables | {contract().variables["vector_index"]: vector_index.index_arn}
        image = server_image(self, "Image", model)
        task = ecs.FargateTaskDefinition(
            self,
            "Task",
            cpu=settings.cpu,
            memory_limit_mib=settings.memory_mb,
            runtime_platform=ecs.RuntimePlatform(
                cpu_architecture=ecs.CpuArchitecture.ARM64,
                operating_system_family=ecs.OperatingSystemFamily.LINUX,
            ),
        )
        task.add_container(
            "Server",
            image=ecs.ContainerImage.from_docker_image_asset(image),
            # Both are given, since the image's own are Lambda's.
            entry_point=["python", "-m"],
            command=["embedder.server"],
            port_mappings=[ecs.PortMapping(container_port=_PORT)],
            environment=variables,
            secrets=secrets,
            logging=ecs.LogDriver.aws_logs(stream_prefix="server", log_group=self.log_group),
            readonly_root_filesystem=True,
            # A user who owns no file, as in Lambda. By default it would be root.
            user="65534:65534",
            stop_timeout=_STOP_TIMEOUT,
        )
        if vector_index:
            vector_index.grant_query(task.task_role)
        reason = "The variables are settings; keys are a secret by reference."
        acknowledge(task, "AwsSolutions-ECS2", reason=reason)
        role = task.obtain_execution_role()
        if existing_keys and settings.keys_secret:
            for_the_secret = {
                "kms:ViaService": f"secretsmanager.{Aws.REGION}.amazonaws.com",
                # https://docs.aws.amazon.com/secretsmanager/latest/userguide/security-encryption.html
                "kms:EncryptionContext:SecretARN": settings.keys_secret,
            }
            allow(role, READ_KEY, existing_keys, conditions={"StringEquals": for_the_secret})
        reason = "ecr:GetAuthorizationToken is granted on all resources or on none."
        acknowledge_wildcard(role, "*", reason=reason)
        return task

    def _make_service(self, vpc: ec2.IVpc, task: ecs.FargateTaskDefinition) -> ecs.FargateService:
        cluster = ecs.Cluster(self, "Cluster", vpc=vpc)
        acknowledge(
            cluster,
            "AwsSolutions-ECS4",
            reason="The service's CPU and memory are metrics without Container Insights, and the "
            "server has its own.",
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
        group = make_group(self, "TaskSecurityGroup", vpc, f"Tasks of {self.name}")
        let_call_aws(group)
        traces = self.settings.otlp_port
        if traces is not None and traces != _HTTPS:
            group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(traces), "traces")
        return group

    def _make_target_group(self, vpc: ec2.IVpc) -> elbv2.ApplicationTargetGroup:
        return elbv2.ApplicationTargetGroup(
            self,
            "Targets",
            vpc=vpc,
            port=_PORT,
            protocol=elbv2.ApplicationProtocol.HTTP,
            targets=[self.service],
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

    def _add_listener(self) -> None:
        listener_properties: dict[str, Any] = {
            "port": 80,
            "protocol": elbv2.ApplicationProtocol.HTTP,
        }
        if arn := self.settings.certificate:
            listener_properties = {
                "port": _HTTPS,
                "protocol": elbv2.ApplicationProtocol.HTTPS,
                "certificates": [acm.Certificate.from_certificate_arn(self, "Certificate", arn)],
                "ssl_policy": elbv2.SslPolicy.TLS13_12_RES_PQ,
            }
        listener = self.load_balancer.add_listener(
            "Listener", open=False, default_target_groups=[self.target_group], **listener_properties
        )
        # The metrics are those of one task, whichever answers: they are read from the tasks.
        listener.add_action(
            "Metrics",
            priority=1,
            conditions=[elbv2.ListenerCondition.path_patterns(["/metrics"])],
            action=elbv2.ListenerAction.fixed_response(404),
        )

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
