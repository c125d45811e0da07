"""The principals that may call the endpoint, and the web pages; none by default.

Source: https://docs.aws.amazon.com/lambda/latest/api/API_Cors.html
"""

import json
import re
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from embedding_kit.settings.base import Distinct, Listed, Settings, allowed, rule_error

#: The headers of a signed request. A browser asks for each of them in the preflight.
#: https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
SIGNING_HEADERS = (
    "authorization",
    "content-type",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
)
_Origin = Annotated[
    str,
    Field(max_length=253, pattern=r"^(\*|https?://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?)$"),
    allowed("an origin in lower case without a path, such as https://example.com, or *"),
]


class Cors(Settings):
    """Web pages that may call the URL from a browser; the request must still be signed."""

    origins: Annotated[Listed[_Origin], Field(min_length=1, max_length=100)] = Field(
        description="The origins of the pages; `*` is any."
    )

    @field_validator("origins")
    @classmethod
    def _any_origin_alone(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "*" in value and len(value) > 1:
            raise rule_error(
                "* is any origin, so no other is listed with it",
                found=", ".join(value),
                allowed='["*"], or origins without *',
            )
        return value


_ORGANIZATION = r"o-[a-z0-9]{10,32}"
_UNIT = r"/r-[a-z0-9]{4,32}(/ou-[a-z0-9]{4,32}-[a-z0-9]{8,32})+"
_ARN = r"arn:aws[a-z-]*:iam::[0-9]{12}:(role|user)/[\w+=,.@/-]+"
_Principal = Annotated[
    str,
    allowed(
        "the ARN of a role or a user, such as arn:aws:iam::111122223333:role/search; an account "
        "number of 12 digits, as text; an organization's id, such as o-a1b2c3d4e5; the path of an "
        "organizational unit, such as o-a1b2c3d4e5/r-ab12/ou-ab12-11111111",
        pattern=rf"^({_ARN}|[0-9]{{12}}|{_ORGANIZATION}({_UNIT})?)$",
    ),
]
_RoleOrUser = Annotated[
    str,
    allowed(
        "the ARN of a role or a user, such as arn:aws:iam::111122223333:role/search",
        pattern=rf"^{_ARN}$",
    ),
]
#: What a caller may search is one value of each document, and S3 Vectors compares whole values.
PREFIX = r"^[^/]+/$"
PREFIX_FORM = "the first folder of documents and a slash, such as acme/"
_Prefix = Annotated[str, Field(max_length=256), allowed(PREFIX_FORM, pattern=PREFIX)]
#: Lambda takes 4 KB for all variables of a function: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
_PREFIXES_BYTES = 2_500
#: Lambda's limit for the policy of an alias: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
_POLICY_BYTES = 20_480
#: What the permissions of an API in front may take of it.
_FRONT_BYTES = 1_000
#: A statement without its principal, for the longest names of stacks and functions.
_STATEMENT_BYTES = 400
#: The statements of a caller of the URL, and of one that may also invoke.
_BY_URL, _BY_BOTH = 2, 3


def without_path(arn: str) -> str:
    """Return the ARN of a role or a user as events name it: a name is unique, whatever its path."""
    return re.sub(r"/.*/", "/", arn)


class Callers(Settings):
    """The principals that may call the endpoint."""

    principals: Distinct[_Principal] = Field(
        default=(),
        description="Roles and users (ARNs), accounts, organizations, and organizational units "
        "(paths) that may call. An account must also allow its own roles and users to call. "
        "Lambda's permissions cannot name units, so the principals of their accounts, and of the "
        "units below, call by a role that they assume: the output `CallerRoleArn`.",
    )
    invoke: bool = Field(
        default=False,
        description="Whether they may also call by Lambda's `Invoke`, which a private network "
        "reaches by an interface endpoint. They then choose the whole event.",
    )

    prefixes: dict[_RoleOrUser, _Prefix] = Field(
        default={},
        description="Roles and users (ARNs) that may call, and search only the documents of "
        "`[ingest]` below their prefix, a first folder such as `acme/`. If there are any, of "
        "`principals` only the roles and users may search, and they search everything.",
    )

    @property
    def units(self) -> tuple[str, ...]:
        """The paths of organizational units."""
        return tuple(
            principal for principal in self.principals if re.match(rf"{_ORGANIZATION}/", principal)
        )

    @property
    def named(self) -> tuple[str, ...]:
        """The principals that the policy of an alias names."""
        return (
            *(principal for principal in self.principals if principal not in self.units),
            *self.prefixes,
        )

    @property
    def searchers(self) -> dict[str, str]:
        """The prefix of each role and user that may search; empty: everything.

        Without limits there are none, and all callers search everything.
        """
        everything = [principal for principal in self.principals if principal.startswith("arn:")]
        return {**dict.fromkeys(everything, ""), **self.prefixes} if self.prefixes else {}

    @model_validator(mode="after")
    def _callers_fit(self) -> Self:
        if self.invoke and not self.principals:
            raise rule_error(
                "no caller is listed who could invoke",
                found="invoke = true without any caller",
                allowed="principals, or no invoke",
            )
        if self.invoke and self.prefixes:
            raise rule_error(
                "callers that invoke choose the event, and with it the role that they call by",
                found="invoke = true with prefixes",
                allowed="prefixes without invoke",
            )
        names = [without_path(arn) for arn in self.searchers]
        twice = [name for name in names if names.count(name) > 1]
        twice += [arn for arn in self.prefixes if arn in self.principals]
        if twice:
            raise rule_error(
                "an event names a caller without its path, so each name has one limit",
                found=f"{twice[0]} twice in principals and prefixes",
                allowed="once",
            )
        size = sum(len(json.dumps(item)) for item in self.searchers.items())
        if size > _PREFIXES_BYTES:
            raise rule_error(
                "the callers that may search are in a variable of the function",
                found=f"{len(self.searchers)} of them, which need {size:,} bytes",
                allowed=f"up to {_PREFIXES_BYTES:,} bytes: one role for each prefix, which others "
                "assume",
            )
        statements = _BY_BOTH if self.invoke else _BY_URL
        needed = sum(statements * (_STATEMENT_BYTES + len(name)) for name in self.named)
        room = _POLICY_BYTES - _FRONT_BYTES
        if needed > room:
            raise rule_error(
                f"the policy of an alias takes {_POLICY_BYTES:,} bytes, and each caller needs "
                f"{statements} statements in it",
                found=f"{len(self.named)} callers, which need about {needed:,} bytes",
                allowed=f"up to {room:,} bytes with an API in front: name the callers' accounts, "
                "the organization or organizational units, or one role that all of them assume",
            )
        return self
