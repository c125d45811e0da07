"""What the CDK's roles publish into: the bucket of artifacts, and the repository of images.

Functions read the bucket, which has what does not fit a zip, and pull from the repository. Also
here: the names of what `cdk bootstrap` created.
"""

from typing import Any

from aws_cdk import DefaultStackSynthesizer, Duration, Fn, RemovalPolicy, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from embedding_kit.findings import acknowledge
from embedding_kit.settings import RepositorySettings


def bootstrap_qualifier(scope: Construct) -> str:
    """Return the qualifier of `cdk bootstrap`, which is a part of all its names."""
    qualifier = scope.node.try_get_context("@aws-cdk/core:bootstrapQualifier")
    return str(qualifier or DefaultStackSynthesizer.DEFAULT_QUALIFIER)


def bootstrap_value(scope: Construct, text: str) -> str:
    """Return a name or an ARN of `cdk bootstrap`, such as a default of the synthesizer."""
    text = text.replace("${Qualifier}", bootstrap_qualifier(scope))
    return Fn.sub(text) if "${" in text else text


#: The prefix of the artifacts' keys. A stack publishes its template and its zips next to it.
ARTIFACTS = "artifact/"
#: What the CDK's command does to publish a file: find out whether it is there, how the bucket is
#: encrypted and where it is, and upload it in parts.
#: https://github.com/aws/aws-cdk-cli, cdk-assets-lib/lib/private/handlers/files.ts
_BUCKET_ACTIONS = ("s3:GetBucketLocation", "s3:GetEncryptionConfiguration", "s3:ListBucket")
_OBJECT_ACTIONS = ("s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject")
#: An interrupted upload leaves parts that are no object; they are deleted after this time.
_UPLOAD_EXPIRY = Duration.days(7)


class ArtifactBucket(Construct):
    """An S3 bucket for artifacts that functions download when they start.

    Nothing in it expires. Lambda runs a version's initialization again long after the deploy: with
    SnapStart when it has deleted an unused snapshot (after 14 days) and when it patches one, with
    provisioned concurrency at any time. So an artifact must outlive every version that downloads
    it. `cdk gc` does not know versions, only the templates of stacks, and deletes other assets from
    the bootstrap bucket; it does not look into this one.
    https://docs.aws.amazon.com/lambda/latest/dg/snapstart-troubleshooting.html
    https://docs.aws.amazon.com/cdk/v2/guide/ref-cli-cmd-gc.html

    A stack publishes its files here with `DefaultStackSynthesizer(file_assets_bucket_name=name)`.
    The CDK's command then uploads the artifact itself, once for each key, as one object that is
    there complete or not at all, so an interrupted deploy can simply be repeated. The CDK's
    `BucketDeployment` would copy it with a function, which needs memory and disk for the artifact,
    and permission to read every asset in the bootstrap bucket.

    Args:
        name: The bucket's name, which may have `${AWS::AccountId}` and `${AWS::Region}`.
        key: The KMS key that encrypts the objects; S3's own if None. Its policy must allow
            `kms:Decrypt` and `kms:GenerateDataKey` to bootstrap's publishing role, and
            `kms:Decrypt` to its roles of the deploy and of CloudFormation.

    Attributes:
        bucket: The bucket.
    """

    def __init__(
        self, scope: Construct, id: str, *, name: str, key: kms.IKey | None = None
    ) -> None:
        super().__init__(scope, id)
        self.bucket = private_bucket(
            self,
            "Artifacts",
            # CloudFormation imports a retained bucket only by a name in plain text.
            # https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/import-resources-automatically.html
            name=Fn.sub(name) if "${" in name else name,
            key=key,
        )
        acknowledge(
            self.bucket,
            "AwsSolutions-S1",
            reason="Only the deploys and the starts of one environment's function use it, and a "
            "log of accesses needs another bucket.",
        )
        self._let_bootstrap_publish()

    def _let_bootstrap_publish(self) -> None:
        # Bootstrap's roles may use only bootstrap's bucket, so this policy must allow it.
        publishes = self._role(DefaultStackSynthesizer.DEFAULT_FILE_ASSET_PUBLISHING_ROLE_ARN)
        objects = self.bucket.arn_for_objects("*")
        for sid, principals, actions, resource in (
            ("BootstrapLooks", [publishes], _BUCKET_ACTIONS, self.bucket.bucket_arn),
            ("BootstrapPublishes", [publishes], _OBJECT_ACTIONS, objects),
            (
                # CloudFormation reads the template as the first, and the functions' zips as the
                # second.
                "BootstrapDeploys",
                [
                    self._role(DefaultStackSynthesizer.DEFAULT_DEPLOY_ROLE_ARN),
                    self._role(DefaultStackSynthesizer.DEFAULT_CLOUDFORMATION_ROLE_ARN),
                ],
                ("s3:GetObject",),
                objects,
            ),
        ):
            self.bucket.add_to_resource_policy(
                iam.PolicyStatement(
                    sid=sid, principals=principals, actions=list(actions), resources=[resource]
                )
            )

    def _role(self, arn: str) -> iam.ArnPrincipal:
        return iam.ArnPrincipal(bootstrap_value(self, arn))


def private_bucket(
    scope: Construct, id: str, *, name: str | None = None, key: kms.IKey | None
) -> s3.Bucket:
    """Create a bucket that only roles of the account read, by TLS, and that no deploy deletes."""
    return s3.Bucket(
        scope,
        id,
        bucket_name=name,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        enforce_ssl=True,
        encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=key,
        bucket_key_enabled=True if key else None,
        # Deleted only if its creation is rolled back, because then it is empty.
        removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        lifecycle_rules=[
            s3.LifecycleRule(
                id="drop-what-an-upload-that-broke-off-has-left",
                abort_incomplete_multipart_upload_after=_UPLOAD_EXPIRY,
            )
        ],
    )


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
