"""A REST API of API Gateway, which callers reach instead of the function's URL.

Sources: https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-api-usage-plans.html,
https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-execution-service-limits-table.html,
https://docs.aws.amazon.com/apigateway/latest/developerguide/apigateway-private-apis.html
"""

from datetime import timedelta
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from embedding_kit.settings.base import (
    Duration,
    EachOnce,
    Listed,
    Settings,
    allowed,
    multiples_of,
    optional,
    rule_error,
)
from embedding_kit.settings.locations import Certificate, DomainName, arn_form

_WebAcl = Annotated[
    str,
    arn_form(
        "a web ACL's ARN",
        "wafv2",
        "regional/webacl/company/1234abcd-12ab",
        r"(regional|global)/webacl/[\w-]+/[\w-]+",
    ),
]


class Firewall(Settings):
    """A web ACL: your own, or one with AWS's managed rules and a limit for each address."""

    web_acl: _WebAcl | None = optional(
        "An existing web ACL. Its rules must not inspect bodies: AWS's core rule set blocks bodies "
        "over 8 KB and texts that look like HTML."
    )
    requests_per_five_minutes: Annotated[int, Field(ge=10, le=2_000_000_000)] = Field(
        default=10_000,
        description="Requests in five minutes above which one address is blocked for a while.",
    )

    @model_validator(mode="after")
    def _one_web_acl(self) -> Self:
        protections = sorted(self.model_fields_set - {"web_acl"})
        if self.web_acl is not None and protections:
            raise rule_error(
                "a web ACL of your own has its own rules",
                found=f"web_acl with {' and '.join(protections)}",
                allowed="web_acl alone, or the others without it",
            )
        return self


#: More usage plans than an account may have in a region by default.
_MOST_CALLERS = 300

_CallerName = Annotated[
    str,
    Field(max_length=40),
    allowed(
        "up to 40 lower-case letters and digits, a letter first, with single hyphens between them",
        pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$",
    ),
]
_KeyLabel = Annotated[
    str,
    Field(max_length=20),
    allowed(
        "up to 20 lower-case letters and digits, with single hyphens between them",
        pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$",
    ),
]
_Function = Annotated[
    str, arn_form("an ARN", "lambda", "function:authorize:live", r"function:[\w-]+(:[\w$-]+)?")
]
_HostedZone = Annotated[
    str,
    allowed("the id of a hosted zone such as Z0123456789ABCDEFGHIJ", pattern=r"^Z[A-Z0-9]{1,31}$"),
]
_VpcEndpoint = Annotated[
    str,
    allowed("a VPC endpoint's id such as vpce-0123456789abcdef0", pattern=r"^vpce-[0-9a-f]{8,17}$"),
]


class FrontCaller(Settings):
    """A caller, with its API keys and limits."""

    name: _CallerName = Field(description="The caller's name, in the names of its keys.")
    keys: Annotated[Listed[_KeyLabel], Field(max_length=2), EachOnce] = Field(
        default=("1",),
        description="Labels of its keys, of which API Gateway makes the secrets. To replace a key, "
        "add a second label, deploy, change the caller, and remove the first. Without keys, every "
        "request of the caller is refused.",
    )
    rate: Annotated[float, Field(gt=0)] = Field(
        strict=False,
        description="Requests per second on average, for each key. AWS applies limits on a "
        "best-effort basis.",
    )
    burst: Annotated[int, Field(ge=1)] = Field(
        description="Requests that one key may send at once, above `rate`."
    )
    monthly_requests: Annotated[int, Field(ge=1)] | None = optional(
        "Requests in a calendar month, for each key; no quota if unset."
    )


class Domain(Settings):
    """A custom domain name. The API's default name is then switched off."""

    name: DomainName = Field(description="The name, such as embeddings.example.com.")
    certificate: Certificate | None = optional(
        "The name's certificate in ACM, in the same region. If unset, the kit makes one, which "
        "`hosted_zone` validates and renews."
    )
    hosted_zone: _HostedZone | None = optional(
        "The id of the public zone in Route 53 that gets the name's record. If unset, make the "
        "name an alias of the output `DomainTarget` in your DNS."
    )

    @model_validator(mode="after")
    def _has_a_certificate(self) -> Self:
        if self.certificate is None and self.hosted_zone is None:
            raise rule_error(
                "a domain name needs a certificate",
                found="neither certificate nor hosted_zone",
                allowed="the ARN of one in ACM, or the zone in which the kit validates a new one",
            )
        return self


class ApiGatewayFront(Settings):
    """A REST API of API Gateway with API keys and usage plans; off without this table.

    AWS bills its requests. It takes what fits into Lambda's 6 MB, and waits 29 s for an answer.
    """

    callers: Annotated[Listed[FrontCaller], Field(min_length=1, max_length=_MOST_CALLERS)] = Field(
        description="The callers."
    )
    vpc_endpoints: Annotated[Listed[_VpcEndpoint], Field(max_length=20), EachOnce] = Field(
        default=(),
        description="VPC endpoints of `execute-api` through which callers come. The API is then "
        "private: nothing else reaches it. Without them it is public (regional).",
    )
    domain: Domain | None = optional("A custom domain name; of a public API only.")
    firewall: Firewall | None = optional(
        "A web application firewall (AWS WAF), of which AWS bills rules and requests; none by "
        "default."
    )
    authorizer: _Function | None = optional(
        "A Lambda function of yours that decides about each request, besides the key. It gets the "
        "headers and not the body, and its answers are not cached."
    )
    timeout: Annotated[
        Duration,
        multiples_of(
            timedelta(seconds=1),
            timedelta(minutes=5),
            rule="API Gateway waits up to 29 seconds, and up to 5 minutes with a higher quota",
            words="whole seconds, 1s to 5m",
        ),
    ] = Field(
        # Its default quota on the time of one request; AWS raises it on request.
        default=timedelta(seconds=29),
        description="The longest time of a request, in whole seconds from 1s to 5m. More than 29s "
        "needs a higher quota (Service Quotas, API Gateway, Maximum integration timeout).",
    )
    manage_log_role: bool = Field(
        default=False,
        description="Whether this environment sets the role with which API Gateway writes logs. "
        "Each account has one such role in a region; it stays when the stack is deleted.",
    )

    @property
    def private(self) -> bool:
        """Whether only VPC endpoints reach the API."""
        return bool(self.vpc_endpoints)

    @field_validator("callers")
    @classmethod
    def _names_differ(cls, callers: tuple[FrontCaller, ...]) -> tuple[FrontCaller, ...]:
        names = [caller.name for caller in callers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise rule_error(
                "a caller is listed twice", found=", ".join(twice), allowed="each name once"
            )
        return callers

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.private and self.domain:
            raise rule_error(
                "a private API is reached by the names of its VPC endpoints",
                found="vpc_endpoints with domain",
                allowed="one of them",
            )
        web_acl = self.firewall.web_acl if self.firewall else None
        if web_acl and ":regional/" not in web_acl:
            raise rule_error(
                "a web ACL of CloudFront cannot protect a REST API",
                found=f"web_acl = {web_acl}",
                allowed="a web ACL with the scope REGIONAL",
            )
        return self


def check_front(front: ApiGatewayFront, *, account: str | None, region: str | None) -> None:
    """Refuse resources of another place, with which AWS would fail the deploy."""
    arns = {
        "domain.certificate": front.domain.certificate if front.domain else None,
        "firewall.web_acl": front.firewall.web_acl if front.firewall else None,
    }
    for name, arn in arns.items():
        if arn and region and arn.split(":")[3] != region:
            raise rule_error(
                "a regional API uses resources of its own region",
                found=f"front.{name} = {arn} with region = {region}",
                allowed=f"an ARN in {region}",
            )
    function = front.authorizer
    if function and account and function.split(":")[4] != account:
        raise rule_error(
            "the stack gives API Gateway the permission to call the authorizer",
            found=f"front.authorizer = {function} with account = {account}",
            allowed=f"a function in {account}",
        )
