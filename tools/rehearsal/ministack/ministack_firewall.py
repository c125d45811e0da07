"""The association of a web ACL with a resource, which MiniStack has as an API and not in templates.

https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-wafv2-webaclassociation.html
"""

from ministack.services import waf
from ministack_records import Created, Properties

__all__ = ["PRIVATE_NAMES", "associate", "disassociate"]

PRIVATE_NAMES = (
    (waf, "_associate_web_acl"),
    (waf, "_disassociate_web_acl"),
)


def associate(_logical: str, properties: Properties, _stack: str) -> Created:
    """Associate the web ACL; its absence is the resource's error."""
    resource, acl = properties["ResourceArn"], properties["WebACLArn"]
    status, _, body = waf._associate_web_acl({"ResourceArn": resource, "WebACLArn": acl})
    if status >= 400:
        raise ValueError(body.decode())
    return f"{resource}|{acl}", {}


def disassociate(_physical: str, properties: Properties) -> None:
    """Remove the association."""
    waf._disassociate_web_acl({"ResourceArn": properties["ResourceArn"]})
