"""Statements of a KMS key's policy, for the services that use the key themselves.

Sources:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
https://repost.aws/knowledge-center/cloudwatch-configure-alarm-sns
https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-sns-policy.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
"""

from typing import Any

Statement = dict[str, Any]


def logs_statement(*, partition: str, region: str, account: str) -> Statement:
    """Return the statement for CloudWatch Logs, for the log groups of one account and region."""
    groups = f"arn:{partition}:logs:{region}:{account}:log-group:*"
    return key_statement(
        "LogsAreEncrypted",
        {"Service": f"logs.{region}.amazonaws.com"},
        ["kms:Decrypt", "kms:Describe*", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
        Condition={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
    )


def publisher_statement(service: str, *, account: str) -> Statement:
    """Return the statement for a service that publishes to the topic of alarms, or to a queue.

    The keys that AWS manages have none of these services, so a topic with such a key gets no
    notice, and only the alarm's history says so.
    """
    return key_statement(
        f"{service.partition('.')[0].capitalize()}Publishes",
        {"Service": service},
        ["kms:Decrypt", "kms:GenerateDataKey*"],
        Condition={"StringEquals": {"aws:SourceAccount": account}},
    )


def key_statement(
    sid: str, principal: dict[str, str], actions: str | list[str], **more: Any
) -> Statement:
    """Return a statement that allows actions with the key."""
    allows = {"Sid": sid, "Effect": "Allow", "Principal": principal, "Action": actions}
    return {**allows, "Resource": "*", **more}
