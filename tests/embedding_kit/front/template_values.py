"""Values of a template: its only resource of a kind, and text with the references replaced."""

from typing import Any

from aws_cdk.assertions import Template

HOME = "123456789012"
#: The id of every resource that a template refers to.
RESOURCE_ID = "abc123"
_PSEUDO = {"AWS::Partition": "aws", "AWS::Region": "us-east-1", "AWS::AccountId": HOME}


def only(template: Template, kind: str) -> dict[str, Any]:
    """Return the properties of the only resource of a kind."""
    (resource,) = template.find_resources(kind).values()
    properties: dict[str, Any] = resource["Properties"]
    return properties


def resolved(value: Any) -> Any:
    """Replace references by those of one account and by `RESOURCE_ID`."""
    if isinstance(value, list):
        return [resolved(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "Ref" in value:
        return _PSEUDO.get(value["Ref"], RESOURCE_ID)
    if "Fn::Join" in value:
        return value["Fn::Join"][0].join(resolved(value["Fn::Join"][1]))
    return {key: resolved(item) for key, item in value.items()}
