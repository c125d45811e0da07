"""A web application firewall (AWS WAF) in front of the endpoint.

Sources: https://docs.aws.amazon.com/waf/latest/developerguide/limits.html,
https://docs.aws.amazon.com/waf/latest/developerguide/aws-managed-rule-groups-baseline.html
"""

import ipaddress
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from embedding_kit.settings.base import EachOnce, Settings, allowed, rule_error

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


def _network(value: str) -> str:
    try:
        network = ipaddress.ip_network(value)
    except ValueError as error:
        raise rule_error(
            "a network's address ends where its prefix does",
            found=value,
            allowed="a network such as 203.0.113.0/24, 203.0.113.7/32 or 2001:db8::/32",
        ) from error
    if network.prefixlen == 0:
        raise rule_error(
            "AWS WAF takes no network of all addresses", found=value, allowed="/1 or longer"
        )
    return str(network)


_Networks = Annotated[
    tuple[
        Annotated[
            str,
            AfterValidator(_network),
            allowed("a network such as 203.0.113.0/24 or 2001:db8::/32"),
        ],
        ...,
    ],
    Field(max_length=10_000),
    EachOnce,
]
#: WAF takes 50 countries in a statement.
_Countries = Annotated[
    tuple[
        Annotated[
            str, Field(pattern=r"^[A-Z]{2}$"), allowed("a country's code of ISO 3166 such as DE")
        ],
        ...,
    ],
    Field(max_length=50),
    EachOnce,
]


class Firewall(Settings):
    """A web ACL: your own, or one with AWS's managed rules and a limit for each address."""

    web_acl: _WebAcl | None = Field(
        default=None,
        description="A web ACL of your own. Its rules must not inspect bodies: "
        "AWS's core rule set blocks bodies over 8 KB and texts that look like HTML.",
    )
    managed_rules: bool = Field(
        default=True,
        description="Whether AWS's managed rules apply, without those that inspect bodies.",
    )
    requests_per_five_minutes: Annotated[int, Field(ge=10, le=2_000_000_000)] = Field(
        default=10_000,
        description="Requests in five minutes above which one address is blocked for a while.",
    )
    addresses: _Networks = Field(
        default=(), strict=False, description="Networks from which alone requests may come."
    )
    blocked_addresses: _Networks = Field(
        default=(), strict=False, description="Networks from which no request may come."
    )
    countries: _Countries = Field(
        default=(),
        strict=False,
        description="Countries from which alone requests may come, by the caller's address.",
    )
    blocked_countries: _Countries = Field(
        default=(), strict=False, description="Countries from which no request may come."
    )

    @property
    def rules(self) -> int:
        """The number of rules of the kit's web ACL, of which AWS bills each."""
        lists = (self.addresses, self.blocked_addresses, self.countries, self.blocked_countries)
        return 1 + 3 * self.managed_rules + sum(map(bool, lists))

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
