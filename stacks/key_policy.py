"""The statements that the policy of an environment's KMS key needs.

Sources:
https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html
https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-data-encryption.html
"""

from embedding_kit.key_statements import (
    Statement,
    key_statement,
    logs_statement,
    publisher_statement,
)
from stacks.environment import EnvironmentSettings


def needed_statements(
    environment: EnvironmentSettings, *, partition: str, region: str, account: str
) -> list[Statement]:
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
        key_statement(
            "PoliciesOfTheAccountDecide", {"AWS": f"arn:{partition}:iam::{account}:root"}, "kms:*"
        ),
        logs_statement(partition=partition, region=region, account=account),
        *(publisher_statement(service, account=account) for service in publishers),
    ]
    if environment.index is not None:
        buckets = f"arn:{partition}:s3vectors:{region}:{account}:bucket/*"
        statements.append(
            key_statement(
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
