"""The stack with the endpoint's alarms, dashboard and budget."""

from aws_cdk import CfnOutput, Stack
from aws_cdk import Environment as Where
from aws_cdk import aws_sns as sns
from constructs import Construct

from embedding_kit.batch import EmbeddingBatch
from embedding_kit.endpoint import EmbeddingEndpoint
from embedding_kit.environment import Environment
from embedding_kit.front.rest_api import EmbeddingRestApi
from embedding_kit.index_loading import IndexLoading
from embedding_kit.monitoring.alarms import EndpointAlarms
from embedding_kit.monitoring.batch import BatchAlarms, batch_widgets
from embedding_kit.monitoring.budget import CostBudget
from embedding_kit.monitoring.dashboard import EndpointDashboard
from embedding_kit.monitoring.front import FrontAlarms, front_widgets
from embedding_kit.monitoring.loads import LoadAlarm, load_widgets
from embedding_kit.monitoring.server import ServerAlarms, server_widgets
from embedding_kit.monitoring.topic import AlarmTopic
from embedding_kit.prices import DEFAULT_REGION, load_prices
from embedding_kit.release_notices import ReleaseNotices
from embedding_kit.service import EmbeddingService
from embedding_kit.standing_cost import default_budget
from stacks.existing import stacks_of_file
from stacks.owned import own_key

__all__ = ["ObservabilityStack"]


class ObservabilityStack(Stack):
    """Alarms, dashboard and budget of one environment."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        endpoint: EmbeddingEndpoint,
        batch: EmbeddingBatch | None,
        loading: IndexLoading | None,
        service: EmbeddingService | None,
        front: EmbeddingRestApi | None,
        cost_tag: tuple[str, str],
        env: Where,
    ) -> None:
        """Create the stack."""
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Embedding Kit, {environment.name}: observability",
            termination_protection=environment.protect,
        )
        emails, watch = environment.alarms.emails, environment.observability.watch
        topic: sns.ITopic | None = None
        if emails:
            key = own_key(self, environment)
            topic = AlarmTopic(self, "Notices", emails=emails, key=key).topic
            CfnOutput(self, "AlarmTopicArn", value=topic.topic_arn)
        alarms = EndpointAlarms(self, "Alarms", endpoint=endpoint, topic=topic, watch=watch)
        if endpoint.deployment_group and topic:
            ReleaseNotices(
                self,
                "Releases",
                deployment_group=endpoint.deployment_group,
                topic=topic,
                runbook_url=environment.alarms.runbook_url,
            )
        dashboard = EndpointDashboard(self, "Dashboard", endpoint=endpoint, alarms=alarms)
        if batch:
            of_batch = BatchAlarms(
                self,
                "BatchAlarms",
                batch=batch,
                topic=topic,
                runbook_url=environment.alarms.runbook_url,
                watch=watch,
            )
            dashboard.dashboard.add_widgets(*batch_widgets(batch, of_batch))
        if loading:
            LoadAlarm(
                self,
                "LoadAlarm",
                loading=loading,
                topic=topic,
                runbook_url=environment.alarms.runbook_url,
            )
            dashboard.dashboard.add_widgets(*load_widgets(loading))
        if service:
            of_server = ServerAlarms(
                self,
                "ServerAlarms",
                service=service,
                settings=environment.alarms,
                topic=topic,
                watch=watch,
            )
            dashboard.dashboard.add_widgets(*server_widgets(service, of_server))
        if front:
            of_front = FrontAlarms(
                self,
                "FrontAlarms",
                front=front,
                settings=environment.alarms,
                topic=topic,
                watch=watch,
            )
            dashboard.dashboard.add_widgets(*front_widgets(front, of_front))
        if environment.budget:
            CostBudget(
                self,
                "Budget",
                settings=environment.budget,
                tag=cost_tag,
                topic=topic,
                default_usd=default_budget(
                    environment, load_prices(environment.region or DEFAULT_REGION)
                ),
            )
        # The doctor does not have the environment's file.
        CfnOutput(self, "Stacks", value=",".join(stacks_of_file(environment)))
