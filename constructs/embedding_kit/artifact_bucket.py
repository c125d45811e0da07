"""The bucket of artifacts that do not fit a zip: the CDK's role writes it, functions read it."""

from aws_cdk import DefaultStackSynthesizer, Duration, Fn, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from embedding_kit.bootstrap import bootstrap_value
from embedding_kit.findings import acknowledge

#: The prefix of the artifacts' keys. A stack publishes its template and its zips next to it.
ARTIFACTS = "artifact/"
#: What the CDK's command does to publish a file: find out whether it is there, how the bucket is
#: encrypted and where it is, and upload it in parts.
#: https://github.com/aws/aws-cdk-cli, cdk-assets-lib/lib/private/handlers/files.ts
_BUCKET_ACTIONS = ("s3:GetBucketLocation", "s3:GetEncryptionConfiguration", "s3:ListBucket")
_OBJECT_ACTIONS = ("s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject")
#: An interrupted upload leaves parts that are no object; they are deleted after this time.
_PARTS_KEPT = Duration.days(7)


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
                abort_incomplete_multipart_upload_after=_PARTS_KEPT,
            )
        ],
    )
