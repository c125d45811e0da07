"""The stack of the bucket of artifacts, deployed before anything is published into it."""

import aws_cdk as cdk

from embedding_kit.artifact_bucket import ArtifactBucket
from stacks.environment_stack import EnvironmentStack, Foundation
from stacks.names import artifact_stack_name


class ArtifactStack(EnvironmentStack):
    """The bucket of one environment's artifacts."""

    def __init__(self, app: cdk.App, foundation: Foundation, bucket: str) -> None:
        """Create the stack; `bucket` is the bucket's name."""
        super().__init__(app, artifact_stack_name(foundation.name), foundation, title="artifacts")
        made = ArtifactBucket(self, "Bucket", name=bucket, key=self.key)
        cdk.CfnOutput(self, "BucketName", value=made.bucket.bucket_name)
