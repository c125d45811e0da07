"""A web application firewall (AWS WAF) in front of the endpoint.

Sources: https://docs.aws.amazon.com/waf/latest/developerguide/limits.html,
https://docs.aws.amazon.com/waf/latest/developerguide/aws-managed-rule-groups-baseline.html
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from embedding_kit.settings.base import Settings, allowed, rule_error

__all__ = ["Firewall"]

_WebAcl = Annotated[
    str,
    Field(
        pattern=r"^arn:aws[a-z-]*:wafv2:[a-z0-9-]+:[0-9]{12}:(regional|global)/webacl/[\w-]+/[\w-]+$"
    ),
    allowed(
        "a web ACL's ARN such as "
        "arn:aws:wafv2:eu-central-1:111122223333:regional/webacl/company/1234abcd-12ab"
    ),
]


class Firewall(Settings):
    """A web ACL: your own, or one with AWS's managed rules and a limit for each address."""

    web_acl: _WebAcl | None = Field(
        default=None,
        description="A web ACL of your own. Its rules must not inspect bodies: "
        "AWS's core rule set blocks bodies over 8 KB and texts that look like HTML.",
    )
    requests_per_five_minutes: Annotated[int, Field(ge=10, le=2_000_000_000)] = Field(
        default=10_000,
        description="Requests in five minutes above which one address is blocked for a while.",
    )

    @model_validator(mode="after")
    def _one_web_acl(self) -> Self:
        others = sorted(self.model_fields_set - {"web_acl"})
        if self.web_acl is not None and others:
            raise rule_error(
                "a web ACL of your own has its own rules",
                found=f"web_acl with {' and '.join(others)}",
                allowed="web_acl alone, or the others without it",
            )
        return self
