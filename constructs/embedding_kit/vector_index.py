"""An index in S3 Vectors: the vectors of one vector space, to search in and to load into."""

import re

from aws_cdk import CfnResource, RemovalPolicy, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3vectors as s3vectors
from constructs import Construct

from embedding_kit.findings import acknowledge
from embedding_kit.image_identity import index_id
from embedding_kit.permissions import READ_KEY, WRITE_KEY, grant
from embedding_kit.programs import contract
from embedding_kit.settings import ModelSettings, VectorIndexSettings, index_dimension
from embedding_kit.settings.base import rule_error
from embedding_kit.settings.index import TEXT_KEY

#: The actions on an index, by the operations that need them. A query that filters or returns
#: metadata needs `GetVectors` too.
#: https://docs.aws.amazon.com/AmazonS3/latest/API/API_S3VectorBuckets_QueryVectors.html
_DESCRIBE = ("s3vectors:GetIndex", "s3vectors:ListTagsForResource")
_QUERY = ("s3vectors:GetVectors", "s3vectors:QueryVectors")
_EDIT = (
    "s3vectors:DeleteVectors",
    "s3vectors:GetVectors",
    "s3vectors:ListVectors",
    "s3vectors:PutVectors",
)
_ARN = re.compile(
    r"arn:aws[a-z-]*:s3vectors:[a-z0-9-]+:[0-9]{12}:bucket/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
    r"/index/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
)


class IVectorIndex(Construct):
    """An index that this app creates, or one that it imports.

    Attributes:
        index_arn: The index's ARN.
        key_arn: The KMS key that encrypts the vectors; None for S3's own.
    """

    index_arn: str
    key_arn: str | None = None

    def grant_query(self, grantee: iam.IGrantable) -> iam.Grant:
        """Grant permission to search, with filters and metadata, and to see the vector space."""
        return self._grant(grantee, (*_DESCRIBE, *_QUERY), READ_KEY)

    def grant_load(self, grantee: iam.IGrantable) -> iam.Grant:
        """Grant permission to write vectors, and to record their vector space once.

        The first load tags the index: the space is known only when the model is compiled.
        """
        space_tag = contract().tags["vector_space"]
        only = {"ForAllValues:StringEquals": {"aws:TagKeys": [space_tag]}}
        tag = grant(grantee, ["s3vectors:TagResource"], self.index_arn, only)
        return self._grant(grantee, (*_DESCRIBE, "s3vectors:PutVectors"), WRITE_KEY).combine(tag)

    def grant_edit(self, grantee: iam.IGrantable) -> iam.Grant:
        """Grant permission to list, read, replace and delete vectors, and to count them."""
        return self._grant(grantee, (*_DESCRIBE, *_EDIT), WRITE_KEY)

    def _grant(
        self, grantee: iam.IGrantable, actions: tuple[str, ...], key_actions: tuple[str, ...]
    ) -> iam.Grant:
        granted = grant(grantee, actions, self.index_arn)
        if self.key_arn is None:
            return granted
        return granted.combine(grant(grantee, key_actions, self.key_arn))


class VectorIndex(IVectorIndex):
    """A vector bucket with the index of one model's vectors: float32, cosine distance.

    CloudFormation names both, so that an index that is replaced never meets its own name. A change
    of the model, the dimension, the non-filterable keys, the language of full-text search or the
    KMS key makes another index, which must be loaded. The earlier one stays next to it:
    CloudFormation deletes neither index nor bucket, except for those that it creates in an update
    that fails.

    Args:
        model: The model of the vectors that are loaded, which has the dimension.
        settings: The metadata keys; none but the text by default.
        key: The KMS key that encrypts the vectors; S3's own by default. Its policy must let
            `indexing.s3vectors.amazonaws.com` decrypt.

    Attributes:
        bucket: The vector bucket.
        index: The index.
        dimension: The number of dimensions.
        settings: The settings. For the others, see `IVectorIndex`.

    Raises:
        ValueError: The model has no vectors of that dimension, or its dimension is unknown.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: ModelSettings,
        settings: VectorIndexSettings | None = None,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.settings = settings or VectorIndexSettings()
        self.dimension = index_dimension(model)
        self.key_arn = key.key_arn if key else None
        self.bucket = s3vectors.CfnVectorBucket(self, "Bucket")
        _retain(self.bucket)
        self.index = self._make_index(model)
        self.index_arn = self.index.attr_index_arn

    def add_standby(self, model: ModelSettings) -> IVectorIndex:
        """Create the index of another model in the same bucket, with the same metadata keys.

        Call it once. The id of an index has nothing of its role: if the two models are exchanged,
        neither index changes.

        Args:
            model: The other model.

        Raises:
            ValueError: It has the same vectors, or none of that dimension, or its dimension is
                unknown.
        """
        if self.node.try_find_child(self.id_of(model)):
            raise rule_error(
                "a second index is of another model or dimension",
                found=f"{model.name} twice, with the same files and settings",
                allowed="another model, revision, precision, folder or index_dimension",
            )
        index_arn = self._make_index(model).attr_index_arn
        return self.from_index_arn(self, "Standby", index_arn, key_arn=self.key_arn)

    def id_of(self, model: ModelSettings) -> str:
        """Return the id of a model's index in this bucket."""
        return index_id(model, self.settings, key_arn=self.key_arn)

    def _make_index(self, model: ModelSettings) -> s3vectors.CfnIndex:
        encryption = None
        if self.key_arn:
            encryption = s3vectors.CfnIndex.EncryptionConfigurationProperty(
                sse_type="aws:kms", kms_key_arn=self.key_arn
            )
        index = s3vectors.CfnIndex(
            self,
            self.id_of(model),
            vector_bucket_arn=self.bucket.attr_vector_bucket_arn,
            data_type="float32",
            dimension=index_dimension(model),
            distance_metric="cosine",
            metadata_configuration=s3vectors.CfnIndex.MetadataConfigurationProperty(
                non_filterable_metadata_keys=[TEXT_KEY, *self.settings.non_filterable]
            ),
            # Of the index alone: a bucket cannot change its key.
            encryption_configuration=encryption,
        )
        language = self.settings.text_search
        if language:
            configuration = {"MetadataKey": TEXT_KEY}
            if language != "standard":
                configuration["Language"] = language
            index.add_property_override(
                "MetadataConfiguration.TextSearchConfigurations", [configuration]
            )
            reason = "CloudFormation has full-text search; the CDK does not know it yet."
            acknowledge(index, "CloudFormation-Validate::F3002", reason=reason)
        _retain(index)
        return index

    @staticmethod
    def from_index_arn(
        scope: Construct, id: str, index_arn: str, *, key_arn: str | None = None
    ) -> IVectorIndex:
        """Import an index of another stack or app, to search in it or to load it.

        Args:
            scope: The parent.
            id: The construct's id.
            index_arn: The index's ARN, such as the output `IndexArn` of its stack.
            key_arn: The KMS key that encrypts its vectors, if one does.

        Raises:
            ValueError: `index_arn` is not the ARN of an index.
        """
        if not Token.is_unresolved(index_arn) and not _ARN.fullmatch(index_arn):
            raise rule_error(
                "a permission to search names the index",
                found=f"index_arn = {index_arn}",
                allowed="the ARN of the index, such as arn:aws:s3vectors:eu-central-1:"
                "111122223333:bucket/my-vectors/index/my-index",
            )
        imported = IVectorIndex(scope, id)
        imported.index_arn = index_arn
        imported.key_arn = key_arn
        return imported


def _retain(resource: CfnResource) -> None:
    # CloudFormation cannot tell a replacement from the end of the stack, and replaces the index
    # before the release check has accepted the version that uses the new one.
    resource.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
