"""The access log of a distribution: a line for each request, without paths, queries and keys."""

from aws_cdk import Aws, Names, RemovalPolicy
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

__all__ = ["FIELDS", "DistributionLog"]

#: No header of a request can be logged other than some that have no key. The path and the query may
#: have a caller's text, and are left out.
#: https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/standard-logs-reference.html
FIELDS = (
    "date",
    "time",
    "x-edge-location",
    "x-edge-request-id",
    "c-ip",
    "cs-method",
    "sc-status",
    "x-edge-result-type",
    "x-edge-detailed-result-type",
    "cs-bytes",
    "sc-bytes",
    "time-taken",
    "time-to-first-byte",
    "ssl-protocol",
)
#: CloudWatch's limit on the names of deliveries.
_NAME = 60


class DistributionLog(Construct):
    """The log group, and the delivery of the log to it; both in us-east-1.

    Attributes:
        log_group: The log group.
    """

    def __init__(
        self, scope: Construct, id: str, *, distribution: cloudfront.IDistribution
    ) -> None:
        """Create the log group, and let CloudWatch deliver the distribution's log to it.

        Args:
            scope: The parent, in a stack in us-east-1.
            id: The construct's id.
            distribution: The distribution.
        """
        super().__init__(scope, id)
        self.log_group = logs.LogGroup(
            self,
            "Group",
            retention=logs.RetentionDays.THREE_MONTHS,
            removal_policy=RemovalPolicy.DESTROY,
        )
        arn = f"arn:{Aws.PARTITION}:logs:{Aws.REGION}:{Aws.ACCOUNT_ID}"
        # https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/AWS-logs-infrastructure-V2-CloudWatchLogs.html
        policy = logs.ResourcePolicy(
            self,
            "Policy",
            policy_statements=[
                iam.PolicyStatement(
                    principals=[iam.ServicePrincipal("delivery.logs.amazonaws.com")],
                    actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                    resources=[f"{arn}:log-group:{self.log_group.log_group_name}:log-stream:*"],
                    conditions={
                        "StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID},
                        "ArnLike": {"aws:SourceArn": f"{arn}:*"},
                    },
                )
            ],
        )
        name = Names.unique_resource_name(self, max_length=_NAME, separator="-")
        source = logs.CfnDeliverySource(
            self,
            "Source",
            name=name,
            log_type="ACCESS_LOGS",
            resource_arn=f"arn:{Aws.PARTITION}:cloudfront::{Aws.ACCOUNT_ID}:distribution/"
            f"{distribution.distribution_id}",
        )
        destination = logs.CfnDeliveryDestination(
            self,
            "Destination",
            name=name,
            destination_resource_arn=self.log_group.log_group_arn,
            output_format="json",
        )
        delivery = logs.CfnDelivery(
            self,
            "Delivery",
            delivery_source_name=source.name,
            delivery_destination_arn=destination.attr_arn,
            record_fields=list(FIELDS),
        )
        delivery.add_resource_dependency(source)
        delivery.node.add_dependency(policy)
