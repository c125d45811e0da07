"""The web pages that may call the endpoint from a browser; none by default.

Source: https://docs.aws.amazon.com/lambda/latest/api/API_Cors.html
"""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, field_validator

from embedding_kit.settings.base import Duration, Settings, allowed, rule_error

__all__ = ["SIGNING_HEADERS", "Cors"]

#: The headers of a signed request. A browser asks for each of them in the preflight.
#: https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
SIGNING_HEADERS = (
    "authorization",
    "content-type",
    "x-amz-content-sha256",
    "x-amz-date",
    "x-amz-security-token",
)
_LONGEST = timedelta(days=1)
_MAX_AGE_ALLOWED = 'whole seconds from "1s" to "1d"'

_Origin = Annotated[
    str,
    Field(max_length=253, pattern=r"^(\*|https?://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?)$"),
    allowed("an origin in lower case without a path, such as https://example.com, or *"),
]
_Header = Annotated[
    str,
    Field(max_length=1024, pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"),
    allowed("the name of a header"),
]


class Cors(Settings):
    """Web pages that may call the URL from a browser; the request must still be signed."""

    origins: Annotated[tuple[_Origin, ...], Field(min_length=1, max_length=100)] = Field(
        strict=False, description="The origins of the pages; `*` is any."
    )
    methods: Annotated[tuple[Literal["GET", "HEAD", "POST"], ...], Field(min_length=1)] = Field(
        default=("GET", "POST"),
        strict=False,
        description="The methods that they may use. Lambda answers the preflight, OPTIONS, itself.",
    )
    headers: Annotated[tuple[_Header, ...], Field(max_length=90)] = Field(
        default=(),
        strict=False,
        description="Headers that they may send beside those of a signature.",
    )
    max_age: Duration = Field(
        default=timedelta(hours=1),
        description="How long a browser may keep the answer to a preflight.",
    )

    @field_validator("origins")
    @classmethod
    def _any_origin_alone(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "*" in value and len(value) > 1:
            raise rule_error(
                "* is any origin, so no other is listed beside it",
                found=", ".join(value),
                allowed='["*"], or origins without *',
            )
        return value

    @field_validator("max_age")
    @classmethod
    def _age_in_seconds(cls, value: timedelta) -> timedelta:
        if value % timedelta(seconds=1) or value > _LONGEST:
            raise rule_error(
                "Lambda takes whole seconds, up to a day", found=value, allowed=_MAX_AGE_ALLOWED
            )
        return value
