"""The web pages that may call the endpoint from a browser; none by default.

Source: https://docs.aws.amazon.com/lambda/latest/api/API_Cors.html
"""

from typing import Annotated

from pydantic import Field, field_validator

from embedding_kit.settings.base import Settings, allowed, rule_error

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
_Origin = Annotated[
    str,
    Field(max_length=253, pattern=r"^(\*|https?://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?)$"),
    allowed("an origin in lower case without a path, such as https://example.com, or *"),
]


class Cors(Settings):
    """Web pages that may call the URL from a browser; the request must still be signed."""

    origins: Annotated[tuple[_Origin, ...], Field(min_length=1, max_length=100)] = Field(
        strict=False, description="The origins of the pages; `*` is any."
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
