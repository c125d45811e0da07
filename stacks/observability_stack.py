"""The stack with the endpoint's alarms, dashboard and budget."""

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns

from embedding_kit.endpoint import EmbeddingEndpoint
from embedding_kit.monitoring.alarms import EndpointAlarms
from embedding_kit.monitoring.dashboard import EndpointDashboard
from embedding_kit.monitoring.notices import AlarmTopic, CostBudget, ReleaseNotices
from embedding_kit.monitoring.parts import AlarmedPart, PartAlarms
from embedding_kit.prices import DEFAULT_REGION, load_prices
from stacks.environment import COST_TAG, EnvironmentSettings
from stacks.environment_stack import EnvironmentStack
from stacks.names import observability_stack_name, stacks_of_file
from stacks.standing_cost import default_budget

#: The id of the alarms of documents in the standby model's index.
STANDBY = "StandbyAlarms"


class ObservabilityStack(EnvironmentStack):
    """Alarms, dashboard and budget of one environment."""

    def __init__(
        self,
        app: cdk.App,
        settings: EnvironmentSettings,
        endpoint: EmbeddingEndpoint,
        parts: Mapping[str, AlarmedPart | None],
    ) -> None:
        """Create the stack; `parts` has what else is watched, by the id of its alarms."""
        name = observability_stack_name(settings.name)
        super().__init__(app, name, settings, title="observability")
        emails, alarmed = settings.alarms.emails, settings.observability.watch
        topic: sns.ITopic | None = None
        if emails:
            topic = AlarmTopic(self, "Notices", emails=emails, key=self.key).topic
            cdk.CfnOutput(self, "AlarmTopicArn", value=topic.topic_arn)
        page_topic: sns.ITopic | None = None
        if arn := settings.alarms.page_topic:
            page_topic = sns.Topic.from_topic_arn(self, "PageTopic", arn)
            cdk.CfnOutput(self, "PageTopicArn", value=arn)
        pages = page_topic or topic
        alarms = EndpointAlarms(
            self,
            "Alarms",
            endpoint=endpoint,
            page_actions=[actions.SnsAction(pages)] if pages else [],
            other_actions=[actions.SnsAction(topic)] if topic else [],
            watch=alarmed,
        )
        if endpoint.deployment_group and topic:
            ReleaseNotices(
                self,
                "Releases",
                deployment_group=endpoint.deployment_group,
                topic=topic,
                runbook_url=settings.alarms.runbook_url,
            )
        dashboard = EndpointDashboard(self, "Dashboard", endpoint=endpoint, alarms=alarms)
        for name, part in parts.items():
            if part:
                part_alarms = PartAlarms(
                    self,
                    name,
                    part=part,
                    settings=settings.alarms,
                    topic=topic,
                    page_topic=page_topic,
                    watch=alarmed,
                    prefix="Standby: " if name == STANDBY else "",
                )
                dashboard.dashboard.add_widgets(*part_alarms.widgets())
        if settings.budget:
            CostBudget(
                self,
                "Budget",
                settings=settings.budget,
                tag=(COST_TAG, settings.name),
                topic=topic,
                default_usd=default_budget(
                    settings, load_prices(settings.region or DEFAULT_REGION)
                ),
            )
        # The doctor does not have the environment's file.
        cdk.CfnOutput(self, "Stacks", value=",".join(stacks_of_file(settings)))
