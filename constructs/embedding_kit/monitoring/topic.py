"""An encrypted SNS topic that only CloudWatch alarms and AWS Budgets may publish to."""

from collections.abc import Sequence

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from embedding_kit.findings import acknowledge

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
