"""The readers of the image repository."""

from typing import Annotated

from pydantic import Field

from embedding_kit.settings.base import EachOnce, Settings, allowed

__all__ = ["RepositorySettings"]

_Role = Annotated[
    str,
    Field(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]+$"),
    allowed("a role's ARN such as arn:aws:iam::111122223333:role/deploy"),
]


class RepositorySettings(Settings):
    """The image repository."""

    pull_roles: Annotated[tuple[_Role, ...], EachOnce] = Field(
        default=(),
        strict=False,
        description="ARNs of roles that may pull the images: the deploying roles of other "
        "accounts, for `scripts/deploy --image`. A role's own account must allow it too.",
    )
