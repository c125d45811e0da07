"""Where alarms and the budget write to: an encrypted topic that only they may publish to."""

from collections.abc import Sequence

from aws_cdk import Acknowledgment, RemovalPolicy, Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

__all__ = ["NoticeTopic"]

#: They publish as themselves, so key and topic must let them; AWS's own key for SNS does not.
_PUBLISHERS = ("cloudwatch.amazonaws.com", "budgets.amazonaws.com")


class NoticeTopic(Construct):
    """An SNS topic, encrypted with a key of its own.

    Attributes:
        topic: The topic.
    """

    def __init__(self, scope: Construct, id: str, *, emails: Sequence[str] = ()) -> None:
        """Make topic and key.

        Args:
            scope: The parent.
            id: The construct's id.
            emails: Addresses to write to; each has to confirm once.
        """
        super().__init__(scope, id)
        key = kms.Key(
            self,
            "Key",
            description="Encrypts the notices of alarms and budget",
            enable_key_rotation=True,
            # It encrypts notices on their way, and nothing that is kept.
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
            Validations.of(subscription).acknowledge(
                Acknowledgment(
                    id="Serverless-SNSRedrivePolicy",
                    reason="SNS hands a mail to the mail system, and takes no queue for what that "
                    "does not deliver.",
                )
            )
