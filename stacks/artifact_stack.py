"""The stack of the bucket of artifacts, deployed before anything is published into it."""

from aws_cdk import CfnOutput, Stack
from aws_cdk import Environment as Where
from aws_cdk import aws_kms as kms
from constructs import Construct

from embedding_kit.artifact_bucket import ArtifactBucket
from embedding_kit.environment import Environment
from stacks.names import artifact_bucket_name

__all__ = ["ArtifactStack"]


class ArtifactStack(Stack):
    """The bucket of one environment's artifacts."""

    def __init__(self, scope: Construct, id: str, *, environment: Environment, env: Where) -> None:
        """Create the stack."""
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Embedding Kit, {environment.name}: artifacts",
            termination_protection=environment.protect,
        )
        key = environment.function.artifact_key
        made = ArtifactBucket(
            self,
            "Bucket",
            name=artifact_bucket_name(
                environment.name, account=environment.account, region=environment.region
            ),
            key=kms.Key.from_key_arn(self, "Key", key) if key else None,
        )
        CfnOutput(self, "BucketName", value=made.bucket.bucket_name)
