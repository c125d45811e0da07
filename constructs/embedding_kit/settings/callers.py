"""The principals that may call the endpoint; none by default."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from embedding_kit.settings.base import EachOnce, Settings, allowed, rule_error

__all__ = ["Callers"]

_Role = Annotated[
    str,
    Field(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]+$"),
    allowed("a role's ARN such as arn:aws:iam::111122223333:role/search"),
]
_Account = Annotated[
    str, Field(pattern=r"^[0-9]{12}$"), allowed("an account number of 12 digits, as text")
]
_Organization = Annotated[
    str, Field(pattern=r"^o-[a-z0-9]{10,32}$"), allowed("an organization's id such as o-a1b2c3d4e5")
]


class Callers(Settings):
    """The principals that may call the endpoint."""

    roles: Annotated[tuple[_Role, ...], EachOnce] = Field(
        default=(), strict=False, description="ARNs of roles that may call."
    )
    accounts: Annotated[tuple[_Account, ...], EachOnce] = Field(
        default=(),
        strict=False,
        description="Accounts that may call. Each account must also allow its own roles to call.",
    )
    organization: _Organization | None = Field(
        default=None, description="An organization; all of its accounts may call."
    )
    invoke: bool = Field(
        default=False,
        description="Whether they may also call by Lambda's `Invoke`, which a private network "
        "reaches by an interface endpoint. They then choose the whole event.",
    )

    @model_validator(mode="after")
    def _someone_invokes(self) -> Self:
        if self.invoke and not (self.roles or self.accounts or self.organization):
            raise rule_error(
                "no caller is listed who could invoke",
                found="invoke = true without roles, accounts or organization",
                allowed="one of these, or no invoke",
            )
        return self
