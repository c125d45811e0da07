"""The stacks that others publish into, deployed before them: the repository and the bucket."""

import aws_cdk as cdk

from embedding_kit.artifact_bucket import ArtifactBucket
from embedding_kit.environment import EnvironmentSettings
from embedding_kit.repository import EmbeddingRepository
from stacks import names
from stacks.environment_stack import EnvironmentStack


class RepositoryStack(EnvironmentStack):
    """The repository of one environment's images."""

    def __init__(self, app: cdk.App, settings: EnvironmentSettings) -> None:
        name = names.repository_stack_name(settings.name)
        super().__init__(app, name, settings, title="image repository")
        made = EmbeddingRepository(
            self,
            "Repository",
            name=names.image_repository(settings),
            settings=settings.repository,
            removal_policy=cdk.RemovalPolicy[settings.removal_policy.upper()],
            key=self.key,
        )
        cdk.CfnOutput(self, "RepositoryUri", value=made.repository.repository_uri)


class ArtifactStack(EnvironmentStack):
    """The bucket of one environment's artifacts."""

    def __init__(self, app: cdk.App, settings: EnvironmentSettings) -> None:
        super().__init__(app, names.artifact_stack_name(settings.name), settings, title="artifacts")
        name = names.artifact_bucket(settings, account=settings.account, region=settings.region)
        made = ArtifactBucket(self, "Bucket", name=name, key=self.key)
        cdk.CfnOutput(self, "BucketName", value=made.bucket.bucket_name)
