"""The rules of an account's owner: a KMS key, rules of IAM roles, and resources that exist."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from embedding_kit.settings.base import Distinct, Settings, allowed, optional, rule_error
from embedding_kit.settings.function import FunctionSettings
from embedding_kit.settings.locations import KeyArn, location_of
from embedding_kit.settings.model import ModelSettings
from embedding_kit.settings.package import artifact_in_s3

_PullRole = Annotated[
    str,
    allowed(
        "a role's ARN such as arn:aws:iam::111122223333:role/deploy",
        pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]+$",
    ),
]


class RepositorySettings(Settings):
    """The image repository."""

    pull_roles: Distinct[_PullRole] = Field(
        default=(),
        description="ARNs of roles that may pull the images: the deploying roles of other "
        "accounts, for `scripts/deploy --image`. A role's own account must allow it too.",
    )


class Encryption(Settings):
    """Your KMS key for everything that an environment stores."""

    key: KeyArn = Field(
        description="The KMS key for all that is stored: environment variables, logs, the image "
        "repository, the topic of alarms, the queues of documents, the bucket of artifacts and the "
        "vector index. Its policy needs the statements in docs/security.md."
    )


_PermissionsBoundary = Annotated[
    str,
    allowed(
        "a policy's ARN such as arn:aws:iam::111122223333:policy/boundary",
        pattern=r"^arn:aws[a-z-]*:iam::(aws|[0-9]{12}):policy/[A-Za-z0-9_+=,.@/-]+$",
    ),
]
_Path = Annotated[
    str,
    Field(max_length=512),
    allowed("a path such as /team/, with a slash at both ends", pattern=r"^/([!-.0-~]+/)+$"),
]


class RoleRules(Settings):
    """Rules that every IAM role of the environment follows."""

    permissions_boundary: _PermissionsBoundary | None = optional(
        "The managed policy that limits all roles as their permissions boundary. It must allow "
        "what docs/security.md lists."
    )
    path: _Path | None = optional(
        "The path of all roles; `/` if unset. A change makes new roles, which needs a release all "
        "at once and without provisioned concurrency."
    )

    @model_validator(mode="after")
    def _sets_something(self) -> Self:
        if self.permissions_boundary is None and self.path is None:
            raise rule_error(
                "[roles] without a setting has no effect",
                found="nothing in it",
                allowed="permissions_boundary, path, or both",
            )
        return self


def _bucket_name(name: str) -> str:
    if location_of(f"s3://{name}").bucket != name:
        raise rule_error("a bucket's name is expected", found=name, allowed="a name without /")
    return name


_Repository = Annotated[
    str,
    Field(min_length=2, max_length=256),
    allowed(
        "a repository's name such as team/embeddings",
        pattern=r"^[a-z0-9]+([._/-][a-z0-9]+|__[a-z0-9]+|-+[a-z0-9]+)*$",
    ),
]
_Role = Annotated[
    str,
    allowed(
        "a role's name, after its path if it has one, such as team/embedder",
        pattern=r"^([A-Za-z0-9_+=,.@-]+/)*[A-Za-z0-9_+=,.@-]{1,64}$",
    ),
]
_LogGroup = Annotated[
    str, allowed("a log group's name such as /team/embedder", pattern=r"^[A-Za-z0-9_./#-]{1,512}$")
]


class Existing(Settings):
    """Existing resources that an environment uses, by name.

    They are in the environment's region, and all but the keys in its account. The kit changes none
    of them.
    """

    repository: _Repository | None = optional(
        "The ECR repository of the images. Its policy must let bootstrap's role push and Lambda "
        "pull."
    )
    bucket: (
        Annotated[str, AfterValidator(_bucket_name), allowed("a bucket's name such as artifacts")]
        | None
    ) = optional(
        "The S3 bucket of an artifact in S3. Its policy must let bootstrap's roles publish and "
        "deploy from it, and nothing in it may expire."
    )
    role: _Role | None = optional(
        "The execution role of the function that serves requests. Synth writes the permissions "
        "that it needs into `cdk.out/iam-policy-report.txt`. A change of the role needs a release "
        "all at once and without provisioned concurrency."
    )
    log_group: _LogGroup | None = optional(
        "The log group of the function that serves requests, of the class Standard. Nothing else "
        "may write to it. Its retention and its key are yours."
    )
    keys: Distinct[KeyArn] = Field(
        default=(),
        description="The KMS keys of the buckets that `[batch]`, `[index]` and `[ingest]` name, "
        "and of the secret of `[server]`. Each role may use them for its own bucket or secret.",
    )

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not any((self.repository, self.bucket, self.role, self.log_group, self.keys)):
            raise rule_error(
                "[existing] without a name has no effect",
                found="nothing in it",
                allowed="repository, bucket, role, log_group or keys",
            )
        return self


def check_keys(
    encryption: Encryption | None, existing: Existing | None, region: str | None
) -> None:
    """Refuse keys of another region."""
    keys = [*([encryption.key] if encryption else []), *(existing.keys if existing else [])]
    elsewhere = [key for key in keys if region and key.split(":")[3] != region]
    if elsewhere:
        raise rule_error(
            "AWS services use a key of their own region only",
            found=f"{', '.join(elsewhere)} with region = {region}",
            allowed=f"a key in {region}, such as a replica of a multi-Region key",
        )


def check_page_topic(page_topic: str | None, region: str | None) -> None:
    """Refuse a topic of another region."""
    topic_region = page_topic.split(":")[3] if page_topic else region
    if region and topic_region != region:
        raise rule_error(
            "CloudWatch notifies topics of its own region only",
            found=f"alarms.page_topic in {topic_region} with region = {region}",
            allowed=f"a topic in {region}",
        )


def check_boundary(roles: RoleRules | None, account: str | None) -> None:
    """Refuse a permissions boundary of another account."""
    boundary = roles.permissions_boundary if roles else None
    owner = boundary.split(":")[4] if boundary else None
    if owner not in (None, "aws", account) and account:
        raise rule_error(
            "IAM takes a permissions boundary of the role's own account only",
            found=f"roles.permissions_boundary of {owner} with account = {account}",
            allowed=f"a policy of {account}",
        )


def check_existing(
    existing: Existing,
    model: ModelSettings,
    function: FunctionSettings,
    repository: RepositorySettings,
) -> None:
    """Refuse a name of a resource that the environment does not use."""
    if existing.repository and function.package != "image":
        raise rule_error(
            "a zip has no image repository",
            found=f'existing.repository with function.package = "{function.package}"',
            allowed='function.package = "image", or no existing.repository',
        )
    if existing.repository and repository.model_fields_set:
        raise rule_error(
            "an existing repository keeps its own policy",
            found="existing.repository with repository."
            + " and repository.".join(sorted(repository.model_fields_set)),
            allowed="one of the two",
        )
    if existing.bucket and not artifact_in_s3(model, function):
        raise rule_error(
            "only a zip with its artifact in S3 has a bucket",
            found="existing.bucket without an artifact in S3",
            allowed='function.package = "zip" with function.artifact = "s3", or no existing.bucket',
        )
    if existing.log_group and "log_retention_days" in function.model_fields_set:
        raise rule_error(
            "a log group of your own has its own retention",
            found="existing.log_group with function.log_retention_days",
            allowed="one of them",
        )
