"""PublishVersion with AWS's rule: equal code and configuration create no new version.

"Lambda doesn't publish a version if the function's configuration and code haven't changed since the
last version" (https://docs.aws.amazon.com/lambda/latest/api/API_PublishVersion.html). MiniStack
compares revision ids, so a function that was changed and changed back looks new. AWS compares
content, and CloudFormation fails if it requests a version and gets an existing one: "A version for
this Lambda function exists ( N )" (https://github.com/aws/serverless-application-model/issues/1375).
"""

from typing import Any

from ministack.services import lambda_svc
from ministack.services.cloudformation import provisioners

__all__ = ["PRIVATE_NAMES", "install"]

PRIVATE_NAMES = (
    (lambda_svc, "_functions"),
    (lambda_svc, "_publish_version"),
    (provisioners, "_RESOURCE_HANDLERS"),
)

#: Fields that an update or a publication changes, and so not part of the content.
_VOLATILE = frozenset(
    {
        "FunctionArn", "LastModified", "LastUpdateStatus", "LastUpdateStatusReason",
        "LastUpdateStatusReasonCode", "RevisionId", "State", "StateReason", "StateReasonCode",
        "Version",
    }
)  # fmt: skip


def install() -> None:
    """Compare content when a version is published."""
    publish = lambda_svc._publish_version
    handler = provisioners._RESOURCE_HANDLERS["AWS::Lambda::Version"]
    create = handler["create"]

    def published(name: str, data: dict[str, Any]) -> Any:
        _compare(name)
        return publish(name, data)

    def created(logical: str, properties: dict[str, Any], stack: str) -> Any:
        _compare(str(properties.get("FunctionName", "")))
        return create(logical, properties, stack)

    lambda_svc._publish_version = published
    handler["create"] = created


def _compare(function: str) -> None:
    """Give the newest version the function's revision id if their content is equal."""
    name = function.split(":")[6] if function.startswith("arn:") else function
    record = lambda_svc._functions.get(name)
    newest = max(record["versions"], key=int, default=None) if record else None
    if newest is None:
        return
    version = record["versions"][newest]
    if _content(version["config"]) == _content(record["config"]):
        version["function_revision"] = record["config"].get("RevisionId")


def _content(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in _VOLATILE}
