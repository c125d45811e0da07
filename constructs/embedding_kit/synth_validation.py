"""Validations that the CDK runs at synth, when the app is complete.

`settings/compatibility.py` compares settings when they are read. These validations read the
finished constructs: an app may have changed the resources, by the CDK's escape hatches or by
methods such as `alias.add_auto_scaling`.
"""

from collections.abc import Iterator

import jsii
from aws_cdk import aws_applicationautoscaling as scaling
from aws_cdk import aws_lambda as lambda_
from constructs import IValidation

from embedding_kit.settings.package import SNAPSTART_STORAGE_MB


@jsii.implements(IValidation)
class AliasResources:
    """The function and the alias have no settings that AWS would reject, or bill without use."""

    def __init__(self, function: lambda_.Function, alias: lambda_.Alias) -> None:
        self._function = function
        self._alias = alias

    def validate(self) -> list[str]:
        """Return the errors; called by the CDK."""
        function, alias = self._function.node.default_child, self._alias.node.default_child
        if not isinstance(function, lambda_.CfnFunction) or not isinstance(alias, lambda_.CfnAlias):
            return []
        scaled = any(isinstance(n, scaling.CfnScalableTarget) for n in self._alias.node.find_all())
        return list(_errors(function, alias, scaled=scaled))


def _errors(
    function: lambda_.CfnFunction, alias: lambda_.CfnAlias, *, scaled: bool
) -> Iterator[str]:
    static = alias.provisioned_concurrency_config is not None
    if static and scaled:
        yield (
            "a static count of provisioned concurrency and its scaling would set the same number "
            "against each other; found: both; allowed: one of them"
        )
    if alias.routing_config is not None and (static or scaled):
        yield (
            "AWS refuses to change the provisioned concurrency of an alias that has weights; "
            "found: both; allowed: one of them, or a second alias with a URL of its own"
        )
    if function.snap_start is None:
        return
    other = 'another cold_start.kind than "snapstart"'
    if static or scaled:
        yield (
            "SnapStart takes no provisioned concurrency; found: both; "
            f"allowed: no provisioned concurrency, or {other}"
        )
    if function.file_system_configs:
        yield (
            "SnapStart takes no EFS file system; found: a file system on the function; "
            f"allowed: no file system, or {other}"
        )
    storage = function.ephemeral_storage
    size = storage.size if isinstance(storage, lambda_.CfnFunction.EphemeralStorageProperty) else 0
    if size > SNAPSTART_STORAGE_MB:
        yield (
            f"SnapStart takes no /tmp over {SNAPSTART_STORAGE_MB} MB; found: {size} MB; "
            f"allowed: {SNAPSTART_STORAGE_MB} MB, or {other}"
        )
