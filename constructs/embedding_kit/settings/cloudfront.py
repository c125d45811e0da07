"""A CloudFront distribution, which callers reach instead of the function's URL.

Sources: https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/private-content-restricting-access-to-lambda.html,
https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/cloudfront-limits.html,
https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/cnames-and-https-requirements.html
"""

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from embedding_kit.settings.base import (
    Duration,
    Settings,
    allowed,
    format_duration,
    rule_error,
)
from embedding_kit.settings.callers import Callers
from embedding_kit.settings.cors import Cors
from embedding_kit.settings.domain import Certificate, DomainName
from embedding_kit.settings.firewall import OptionalFirewall

__all__ = ["EDGE_REGION", "CloudFrontFront", "DistributionDomain", "check_cloudfront"]

#: CloudFront takes certificates, web ACLs, metrics and log deliveries of this region alone.
EDGE_REGION = "us-east-1"
#: CloudFront's own default and its default quota.
DEFAULT_TIMEOUT, _LONGEST_TIMEOUT = timedelta(seconds=30), timedelta(minutes=2)


class DistributionDomain(Settings):
    """A name of your own. The distribution's default name also works."""

    name: DomainName = Field(
        description="A name of the certificate. Make it an alias of the output `DomainTarget` in "
        "your DNS."
    )
    certificate: Certificate = Field(description="The certificate in ACM, in us-east-1.")
    minimum_tls: Annotated[Literal["1.2", "1.3"], allowed('"1.2" or "1.3"')] = Field(
        default="1.2",
        description="The oldest version of TLS that callers may use. CloudFront's default name "
        "always takes TLS 1.0, too.",
    )

    @field_validator("certificate")
    @classmethod
    def _certificate_at_the_edge(cls, value: str) -> str:
        if value.split(":")[3] != EDGE_REGION:
            raise rule_error(
                "CloudFront uses certificates of one region",
                found=value,
                allowed=f"a certificate in {EDGE_REGION}",
            )
        return value


class CloudFrontFront(Settings):
    """A CloudFront distribution with API keys, for the client of this kit; off without it."""

    kind: Literal["cloudfront"] = Field(
        description="What callers reach. A distribution costs about $1.13 for a million requests, "
        "takes what fits into Lambda's 6 MB, and serves clients that send the SHA-256 of each body."
    )
    domain: DistributionDomain | None = Field(default=None, description="A name of your own.")
    firewall: OptionalFirewall = None
    timeout: Duration = Field(
        default=DEFAULT_TIMEOUT,
        description="The longest time that CloudFront waits for the function, in whole seconds "
        "from 1s to 2m.",
    )

    @field_validator("timeout")
    @classmethod
    def _timeout_in_range(cls, value: timedelta) -> timedelta:
        if value % timedelta(seconds=1) or value > _LONGEST_TIMEOUT:
            raise rule_error(
                "CloudFront waits up to 2 minutes for an origin",
                found=format_duration(value),
                allowed="whole seconds, 1s to 2m",
            )
        return value

    @model_validator(mode="after")
    def _firewall_at_the_edge(self) -> Self:
        web_acl = self.firewall.web_acl if self.firewall else None
        if web_acl and not (f":{EDGE_REGION}:" in web_acl and ":global/" in web_acl):
            raise rule_error(
                "a distribution takes only web ACLs of CloudFront",
                found=f"web_acl = {web_acl}",
                allowed=f"a web ACL with the scope CLOUDFRONT, in {EDGE_REGION}",
            )
        return self


def check_cloudfront(*, region: str | None, callers: Callers, cors: Cors | None) -> None:
    """Refuse what a distribution in front of the endpoint excludes.

    Args:
        region: The environment's region, if it is set.
        callers: The principals that may call the function's URL.
        cors: The web pages that may call it.

    Raises:
        PydanticCustomError: A `ValueError` with the rule, the value found and the values allowed.
    """
    if region is None:
        raise rule_error(
            f"the stack in {EDGE_REGION} refers to the endpoint by its region",
            found='front.kind = "cloudfront" without region',
            allowed="region at the top of the file",
        )
    if callers != Callers():
        raise rule_error(
            "callers of the function's URL would pass the firewall and the keys of CloudFront",
            found='[callers] with front.kind = "cloudfront"',
            allowed='one of them, or front.kind = "api-gateway"',
        )
    if cors is not None:
        raise rule_error(
            "a browser's preflight request has no key, so CloudFront refuses it",
            found='[cors] with front.kind = "cloudfront"',
            allowed="one of them",
        )
