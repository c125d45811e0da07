"""The statements that a deploy needs in the policies of a repository and of a bucket.

The constructs write it into the policies that they make, and `scripts/deploy` looks for it in those
of existing ones. The roles are those of `cdk bootstrap`.
"""

from typing import Any

_Statement = dict[str, Any]

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
PULL_ACTIONS = ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
#: What the CDK's command does to publish a file: find out whether it is there, how the bucket is
#: encrypted and where it is, and upload it in parts.
#: https://github.com/aws/aws-cdk-cli, cdk-assets-lib/lib/private/handlers/files.ts
BUCKET_ACTIONS = (
    "s3:GetBucketLocation",
    "s3:GetEncryptionConfiguration",
    "s3:ListBucket",
)
OBJECT_ACTIONS = ("s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject")


def repository_statements(
    *, partition: str, region: str, account: str, qualifier: str
) -> list[_Statement]:
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
            "Action": list(PULL_ACTIONS),
            "Condition": {
                "ArnLike": {"aws:SourceArn": functions},
                "StringEquals": {"aws:SourceAccount": account},
            },
        },
    ]


def bucket_statements(
    bucket: str, *, partition: str, region: str, account: str, qualifier: str
) -> list[_Statement]:
    """Return the statements of a bucket's policy, by which bootstrap's role publishes into it.

    The role that deploys, and that of CloudFormation, read it by their own policies.
    """
    role = f"cdk-{qualifier}-file-publishing-role-{account}-{region}"
    principal = {"AWS": f"arn:{partition}:iam::{account}:role/{role}"}
    arn = f"arn:{partition}:s3:::{bucket}"
    return [
        {
            "Sid": sid,
            "Effect": "Allow",
            "Principal": principal,
            "Action": list(actions),
            "Resource": resource,
        }
        for sid, actions, resource in (
            ("BootstrapLooks", BUCKET_ACTIONS, arn),
            ("BootstrapPublishes", OBJECT_ACTIONS, f"{arn}/*"),
        )
    ]
