"""The principals that may call the endpoint; none by default."""

from typing import Annotated

from pydantic import Field

from embedding_kit.settings.base import EachOnce, Settings, allowed

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
    """The principals that may call the endpoint's URL."""

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
