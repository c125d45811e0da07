"""Rules of an account for all IAM roles of an app, a stack or a construct."""

import jsii
from aws_cdk import AspectPriority, Aspects, CfnResource, IAspect
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

from embedding_kit.settings import RoleRules

__all__ = ["apply_role_rules"]


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
