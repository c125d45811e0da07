"""The statements that the policy of your KMS key needs.

Sources:
https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html
https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
https://repost.aws/knowledge-center/cloudwatch-configure-alarm-sns
https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-sns-policy.html
https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-data-encryption.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
"""

from typing import Any

from embedding_kit.environment import EnvironmentSettings

_Statement = dict[str, Any]


def needed_statements(
    environment: EnvironmentSettings, *, partition: str, region: str, account: str
) -> list[_Statement]:
    """Return the statements that the key's policy must have for an environment."""
    publishers = []
    if environment.alarms.emails:  # Without a recipient there is no topic.
        publishers = ["cloudwatch.amazonaws.com"]
        if environment.budget is not None:
            publishers.append("budgets.amazonaws.com")
    if environment.ingest is not None:
        publishers.append("events.amazonaws.com")
    statements = [
        # The default key policy: policies of the account decide. By it, CloudFormation's role
        # creates the grants of Lambda and ECR, and the kit's roles use the key as theirs say.
        _statement(
            "PoliciesOfTheAccountDecide", {"AWS": f"arn:{partition}:iam::{account}:root"}, "kms:*"
        ),
        logs_statement(partition=partition, region=region, account=account),
        *(publisher_statement(service, account=account) for service in publishers),
    ]
    if environment.index is not None:
        buckets = f"arn:{partition}:s3vectors:{region}:{account}:bucket/*"
        statements.append(
            _statement(
                "VectorsAreIndexed",
                {"Service": "indexing.s3vectors.amazonaws.com"},
                ["kms:Decrypt"],
                Condition={
                    "StringEquals": {"aws:SourceAccount": account},
                    "ArnLike": {"aws:SourceArn": buckets},
                },
            )
        )
    return statements


def logs_statement(*, partition: str, region: str, account: str) -> _Statement:
    """Return the statement for CloudWatch Logs, for the log groups of one account and region."""
    groups = f"arn:{partition}:logs:{region}:{account}:log-group:*"
    return _statement(
        "LogsAreEncrypted",
        {"Service": f"logs.{region}.amazonaws.com"},
        ["kms:Decrypt", "kms:Describe*", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
        Condition={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
    )


def publisher_statement(service: str, *, account: str) -> _Statement:
    """Return the statement for a service that publishes to the topic of alarms, or to a queue.

    The keys that AWS manages have none of these services, so a topic with such a key gets no
    notice, and only the alarm's history says so.
    """
    return _statement(
        f"{service.partition('.')[0].capitalize()}Publishes",
        {"Service": service},
        ["kms:Decrypt", "kms:GenerateDataKey*"],
        Condition={"StringEquals": {"aws:SourceAccount": account}},
    )


def _statement(
    sid: str, principal: dict[str, str], actions: str | list[str], **more: Any
) -> _Statement:
    allows = {"Sid": sid, "Effect": "Allow", "Principal": principal, "Action": actions}
    return {**allows, "Resource": "*", **more}
