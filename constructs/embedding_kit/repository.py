"""The image repository: the CDK's role pushes to it, and this account's functions pull from it."""

from typing import Any

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from embedding_kit.bootstrap import bootstrap_qualifier
from embedding_kit.settings import RepositorySettings

#: An interrupted upload leaves untagged layers; they are deleted after this time.
_UNTAGGED_KEPT = Duration.days(14)
#: The actions of `docker push`, and of the CDK's query whether an image exists.
_PUSH_ACTIONS = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:DescribeImages",
    "ecr:DescribeRepositories",
    "ecr:GetDownloadUrlForLayer",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
)
_PULL_ACTIONS = ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")


class EmbeddingRepository(Construct):
    """An ECR repository for the endpoint's images.

    Tags are immutable and images are scanned when they are pushed. The CDK tags every image by its
    content, and the lifecycle deletes only untagged images, so an image that a version runs is
    never deleted, however old the version is.

    Args:
        name: The repository's name. A stack publishes its image here with
            `DefaultStackSynthesizer(image_assets_repository_name=name)`, so it is plain text.
        settings: Which roles of other accounts pull; none by default.
        removal_policy: With `DESTROY` the images are deleted with the stack; they stay by default.
        key: The KMS key that encrypts the images; ECR's own if None. ECR cannot change it later,
            and a repository that is replaced would meet its own name. ECR uses it by grants, which
            the role that deploys must be allowed to create.

    Attributes:
        repository: The ECR repository.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        settings: RepositorySettings | None = None,
        removal_policy: RemovalPolicy = RemovalPolicy.RETAIN,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id)
        settings = settings or RepositorySettings()
        self.repository = ecr.Repository(
            self,
            "Images",
            repository_name=name,
            image_tag_mutability=ecr.TagMutability.IMMUTABLE,
            image_scan_on_push=True,
            encryption=ecr.RepositoryEncryption.KMS if key else None,
            encryption_key=key,
            removal_policy=removal_policy,
            empty_on_delete=removal_policy is RemovalPolicy.DESTROY,
            lifecycle_rules=[
                ecr.LifecycleRule(
                    description="Drop what an upload that broke off has left",
                    tag_status=ecr.TagStatus.UNTAGGED,
                    max_image_age=_UNTAGGED_KEPT,
                )
            ],
        )
        # Bootstrap's role may push only to bootstrap's repository, so this policy must allow it.
        stack = Stack.of(self)
        for statement in repository_statements(
            partition=stack.partition,
            region=stack.region,
            account=stack.account,
            qualifier=bootstrap_qualifier(self),
        ):
            self.repository.add_to_resource_policy(iam.PolicyStatement.from_json(statement))
        if settings.pull_roles:
            self.repository.add_to_resource_policy(
                iam.PolicyStatement(
                    sid="RolesPull",
                    actions=list(_PULL_ACTIONS),
                    principals=[iam.ArnPrincipal(role) for role in settings.pull_roles],
                )
            )


def repository_statements(
    *, partition: str, region: str, account: str, qualifier: str
) -> list[dict[str, Any]]:
    """Return the statements of a repository's policy: bootstrap's role pushes, Lambda pulls."""
    role = f"cdk-{qualifier}-image-publishing-role-{account}-{region}"
    functions = f"arn:{partition}:lambda:{region}:{account}:function:*"
    return [
        {
            "Sid": "BootstrapPublishes",
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:{partition}:iam::{account}:role/{role}"},
            "Action": list(_PUSH_ACTIONS),
        },
        {
            "Sid": "LambdaPulls",
            "Effect": "Allow",
            "Principal": {"Service": "lambda.amazonaws.com"},
            "Action": list(_PULL_ACTIONS),
            "Condition": {
                "ArnLike": {"aws:SourceArn": functions},
                "StringEquals": {"aws:SourceAccount": account},
            },
        },
    ]
