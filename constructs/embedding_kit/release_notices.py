"""Notices of failed and stopped releases, sent by an event rule on CodeDeploy."""

from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sns as sns
from constructs import Construct

from embedding_kit.findings import acknowledge
from embedding_kit.settings.observability import RUNBOOK


class ReleaseNotices(Construct):
    """A notice for each deployment that fails or is stopped, which is when CodeDeploy rolls back.

    EventBridge publishes with the rule's role, so the topic and its key need no statement for a
    service principal. Events:
    https://docs.aws.amazon.com/codedeploy/latest/userguide/monitoring-cloudwatch-events.html

    Args:
        deployment_group: An endpoint's `deployment_group`.
        topic: The topic that receives the notices.
        runbook_url: The runbook's address, as in `AlarmSettings`.

    Attributes:
        rule: The event rule.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        deployment_group: codedeploy.ILambdaDeploymentGroup,
        topic: sns.ITopic,
        runbook_url: str = RUNBOOK,
    ) -> None:
        super().__init__(scope, id)
        self.rule = events.Rule(
            self,
            "Rule",
            description="Releases that failed or were stopped",
            event_pattern=events.EventPattern(
                source=["aws.codedeploy"],
                detail_type=["CodeDeploy Deployment State-change Notification"],
                detail={
                    "state": ["FAILURE", "STOP"],
                    "application": [deployment_group.application.application_name],
                    "deploymentGroup": [deployment_group.deployment_group_name],
                },
            ),
        )
        acknowledge(
            self,
            "AwsSolutions-IAM5[Action::kms:GenerateDataKey*]",
            reason="SNS documents the permission of a publisher to an encrypted topic in this "
            "form.",
        )
        acknowledge(
            self,
            "Serverless-EventBusDLQ",
            reason="EventBridge tries again for 24 hours, and scripts/deploy prints the failure in "
            "any case.",
        )
        deployment = events.EventField.from_path("$.detail.deploymentId")
        state = events.EventField.from_path("$.detail.state")
        group = events.EventField.from_path("$.detail.deploymentGroup")
        self.rule.add_target(
            targets.SnsTopic(
                topic,
                authorize_using_role=True,
                message=events.RuleTargetInput.from_text(
                    f"The release {deployment} of {group} did not succeed ({state}). CodeDeploy "
                    "sends all requests to the previous version again. "
                    f"Runbook: {runbook_url}#release"
                ),
            )
        )
