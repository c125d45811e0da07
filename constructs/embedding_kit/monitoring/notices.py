"""Notices: the topic of alarms and budget, the budget, and the mail about failed releases."""

from collections.abc import Sequence

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from embedding_kit.findings import acknowledge
from embedding_kit.settings import Budget
from embedding_kit.settings.observability import RUNBOOK

#: These services publish as their principals, so the key and the topic must allow them.
#: The key policy of the AWS managed key for SNS does not.
_PUBLISHERS = ("cloudwatch.amazonaws.com", "budgets.amazonaws.com")


class AlarmTopic(Construct):
    """An SNS topic that is encrypted with a KMS key.

    Args:
        emails: Addresses to subscribe. Each recipient confirms the subscription once.
        key: The KMS key of the topic; a new one if None. The policy of an imported key must let
            CloudWatch, and AWS Budgets with a budget, use `kms:Decrypt` and `kms:GenerateDataKey*`:
            without it, no notice is sent.

    Attributes:
        topic: The topic.
        emails: The subscribed addresses.
    """

    def __init__(
        self, scope: Construct, id: str, *, emails: Sequence[str] = (), key: kms.IKey | None = None
    ) -> None:
        super().__init__(scope, id)
        self.emails = tuple(emails)
        key = key or kms.Key(
            self,
            "Key",
            description="Encrypts the notices of alarms and budget",
            enable_key_rotation=True,
            # It encrypts messages in transit only, so nothing is lost with it.
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.topic = sns.Topic(self, "Topic", master_key=key, enforce_ssl=True)
        publishers = [iam.ServicePrincipal(service) for service in _PUBLISHERS]
        from_here = {"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="NoticesAreEncrypted",
                actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                principals=list(publishers),
                resources=["*"],
                conditions=from_here,
            )
        )
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="NoticesArePublished",
                actions=["sns:Publish"],
                principals=list(publishers),
                resources=[self.topic.topic_arn],
                conditions=from_here,
            )
        )
        for email in emails:
            subscription = self.topic.add_subscription(subscriptions.EmailSubscription(email))
            acknowledge(
                subscription,
                "Serverless-SNSRedrivePolicy",
                reason="Email subscriptions have no dead-letter queue for mail that is not "
                "delivered.",
            )


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


#: The kinds of cost of which notices are sent, and the percent of the budget.
_LIMITS = (("ACTUAL", 50), ("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))


class CostBudget(Construct):
    """A budget that notifies at 50, 80 and 100% of actual cost and at 100% of forecast cost.

    Activate the tag for cost allocation once, in the account that pays. Until then the budget finds
    no costs.

    Args:
        settings: The monthly amount.
        tag: Key and value of the cost-allocation tag.
        topic: The topic to notify; without one, only the console shows the budget. Its key must let
            AWS Budgets encrypt.
        default_usd: The amount if the settings have none, as `default_budget` of the app's
            `stacks/standing_cost.py` computes it from an environment.

    Attributes:
        budget: The budget.

    Raises:
        ValueError: There is no amount.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        settings: Budget,
        tag: tuple[str, str],
        topic: sns.ITopic | None = None,
        default_usd: float | None = None,
    ) -> None:
        super().__init__(scope, id)
        amount = settings.monthly_usd or default_usd
        if amount is None:
            raise ValueError(
                "a budget needs an amount; found: neither monthly_usd nor default_usd; "
                "allowed: US dollars per month in one of them"
            )
        key, value = tag
        self.budget = budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=amount, unit="USD"),
                cost_filters={"TagKeyValue": [f"user:{key}${value}"]},
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=spending,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[
                        budgets.CfnBudget.SubscriberProperty(
                            subscription_type="SNS", address=topic.topic_arn
                        )
                    ],
                )
                for spending, percent in _LIMITS
            ]
            if topic
            else None,
        )
        if topic:
            # AWS Budgets publishes to the topic when the budget is created: the policy must exist.
            self.budget.node.add_dependency(topic)
