"""The stack of the bucket of artifacts, deployed before anything is published into it."""

import aws_cdk as cdk

from embedding_kit.storage import ArtifactBucket
from stacks.environment import EnvironmentSettings
from stacks.environment_stack import EnvironmentStack
from stacks.names import artifact_bucket, artifact_stack_name


class ArtifactStack(EnvironmentStack):
    """The bucket of one environment's artifacts."""

    def __init__(self, app: cdk.App, settings: EnvironmentSettings) -> None:
        super().__init__(app, artifact_stack_name(settings.name), settings, title="artifacts")
        name = artifact_bucket(settings, account=settings.account, region=settings.region)
        artifacts = ArtifactBucket(self, "Bucket", name=name, key=self.key)
        cdk.CfnOutput(self, "BucketName", value=artifacts.bucket.bucket_name)
