"""What AWS would refuse of the finished function, whoever changed it after it was constructed.

Settings are checked when they are read. An app can still reach behind a construct, by the CDK's
escape hatches or with a method of the function; this looks at what came out in the end.
"""

import jsii
from aws_cdk import aws_lambda as lambda_
from constructs import IValidation

from embedding_kit.settings.together import SNAPSTART_STORAGE_MB

__all__ = ["AwsRules"]


@jsii.implements(IValidation)
class AwsRules:
    """Validates a function at synth: what SnapStart cannot be combined with."""

    def __init__(self, function: lambda_.Function) -> None:
        self._function = function

    def validate(self) -> list[str]:
        """List what would be refused; called by the CDK."""
        resource = self._function.node.default_child
        if not isinstance(resource, lambda_.CfnFunction) or resource.snap_start is None:
            return []
        found = []
        if resource.file_system_configs:
            found.append(
                "SnapStart takes no EFS file system; found: a file system on the function; "
                'allowed: no file system, or another cold_start.kind than "snapstart"'
            )
        storage = resource.ephemeral_storage
        size = (
            storage.size if isinstance(storage, lambda_.CfnFunction.EphemeralStorageProperty) else 0
        )
        if size > SNAPSTART_STORAGE_MB:
            found.append(
                f"SnapStart takes no /tmp over {SNAPSTART_STORAGE_MB} MB; found: {size} MB; "
                f'allowed: {SNAPSTART_STORAGE_MB} MB, or another cold_start.kind than "snapstart"'
            )
        return found
