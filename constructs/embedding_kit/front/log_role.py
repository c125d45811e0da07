"""The role with which API Gateway writes the logs of all APIs of an account and region."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from constructs import Construct

from embedding_kit.findings import acknowledge

__all__ = ["ApiLogRole"]

#: API Gateway accepts a role for logs only with the actions of its own managed policy.
#: https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-logging.html
_POLICY = "service-role/AmazonAPIGatewayPushToCloudWatchLogs"


class ApiLogRole(Construct):
    """The role, and the account's setting. Both outlive the stack, for other APIs use them.

    Attributes:
        account: The account's setting, which a stage with a log needs.
    """

    def __init__(self, scope: Construct, id: str) -> None:
        """Create the role, and set it.

        Args:
            scope: The parent.
            id: The construct's id.
        """
        super().__init__(scope, id)
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("apigateway.amazonaws.com"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(_POLICY)],
        )
        self.account = apigateway.CfnAccount(self, "Account", cloud_watch_role_arn=role.role_arn)
        for retained in (role, self.account):
            retained.apply_removal_policy(RemovalPolicy.RETAIN)
        acknowledge(
            role,
            {
                f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{_POLICY}]": "API "
                "Gateway accepts a role for logs with this policy's actions only."
            },
        )
