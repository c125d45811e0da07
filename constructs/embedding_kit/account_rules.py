"""An account's rules for the resources of an app: a key for its logs, and rules of IAM roles."""

import jsii
from aws_cdk import AspectPriority, Aspects, Aws, CfnResource, IAspect
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from embedding_kit.key_statements import logs_statement
from embedding_kit.settings import RoleRules


def encrypt_logs(scope: Construct, key: kms.IKey) -> None:
    """Encrypt all log groups below a scope that the app creates, with one key.

    The policy of a key that the app creates gets CloudWatch Logs' statement. That of an imported
    key must have it already.

    Args:
        scope: An app, a stack or a construct.
        key: The key, of the same region.
    """
    statement = logs_statement(partition=Aws.PARTITION, region=Aws.REGION, account=Aws.ACCOUNT_ID)
    key.add_to_resource_policy(iam.PolicyStatement.from_json(statement))
    Aspects.of(scope).add(_LogKey(key.key_arn), priority=AspectPriority.MUTATING)


@jsii.implements(IAspect)
class _LogKey:
    def __init__(self, arn: str) -> None:
        self._arn = arn

    def visit(self, node: IConstruct) -> None:
        if isinstance(node, logs.CfnLogGroup):
            node.kms_key_id = self._arn


def apply_role_rules(scope: Construct, rules: RoleRules) -> None:
    """Give all roles below a scope a permissions boundary and a path.

    It covers the roles that the CDK's own constructs create, and those that are added later.

    Args:
        scope: An app, a stack or a construct.
        rules: The permissions boundary and the path.
    """
    if rules.permissions_boundary:
        boundary = iam.ManagedPolicy.from_managed_policy_arn(
            scope, "PermissionsBoundary", rules.permissions_boundary
        )
        iam.PermissionsBoundary.of(scope).apply(boundary)
    if rules.path:
        Aspects.of(scope).add(_RolePath(rules.path), priority=AspectPriority.MUTATING)


@jsii.implements(IAspect)
class _RolePath:
    """Sets the path of each role. The CDK has such an aspect for boundaries only."""

    def __init__(self, path: str) -> None:
        self._path = path

    def visit(self, node: IConstruct) -> None:
        if isinstance(node, CfnResource) and node.cfn_resource_type == "AWS::IAM::Role":
            node.add_property_override("Path", self._path)
