"""Batch jobs: where they read and write, and how much of the account they may use.

Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html (safe characters),
https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html
"""

import re
from typing import Annotated, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from embedding_kit.settings.base import Settings, allowed, rule_error

__all__ = ["BatchSettings", "Location"]

_ALLOWED = (
    "s3://BUCKET or s3://BUCKET/PREFIX; a bucket's name has 3 to 63 lower-case letters, digits, "
    "hyphens and dots, and a prefix letters, digits and ! - _ . ' ( ) /"
)
_URL = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:/[A-Za-z0-9!_.'()-]+)*)/?")
#: Names that S3 refuses although they fit the pattern: IP addresses and reserved words.
_REFUSED_NAME = re.compile(
    r".*\.\..*|\d+\.\d+\.\d+\.\d+|(xn--|sthree-|amzn-s3-demo-).*|.*(-s3alias|--ol-s3|\.mrap|--x-s3)"
)
_Url = Annotated[str, allowed(_ALLOWED)]
_Key = Annotated[
    str,
    Field(pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$"),
    allowed("a key's ARN such as arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab"),
]


class Location(NamedTuple):
    """A folder in S3. The prefix is empty, or ends with a slash."""

    bucket: str
    prefix: str


class BatchSettings(Settings):
    """Batch jobs over files in S3, with a function of their own; off without this table."""

    input: _Url = Field(
        description="The folder that jobs may read, in an existing bucket of the same region."
    )
    output: _Url = Field(
        description="The folder that jobs may write, in an existing bucket of the same region. It "
        "must not contain `input` or be in it."
    )
    memory_mb: Annotated[int, Field(ge=128, le=10240)] = Field(
        default=1769, description="Memory of the function in MB; 1,769 MB equal one vCPU."
    )
    max_concurrency: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=20, description="The highest number of shards that are embedded at a time."
    )
    reserved_concurrency: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Concurrency that is reserved for the function, from `max_concurrency` up. It "
        "is taken from the account's quota, so that jobs and callers never take each other's.",
    )
    max_rejected_percent: Annotated[float, Field(ge=0, le=100)] = Field(
        default=1.0,
        description="A job fails if more of its rows are rejected, unless it says otherwise.",
    )
    input_key: _Key | None = Field(
        default=None, description="The KMS key that encrypts the input, if one does."
    )
    output_key: _Key | None = Field(
        default=None, description="The KMS key that encrypts the output's bucket, if one does."
    )

    @property
    def source(self) -> Location:
        """The folder that jobs may read."""
        return _location(self.input)

    @property
    def destination(self) -> Location:
        """The folder that jobs may write."""
        return _location(self.output)

    @field_validator("input", "output")
    @classmethod
    def _location_acceptable(cls, value: str) -> str:
        match = _URL.fullmatch(value)
        if match is None or _REFUSED_NAME.fullmatch(match[1]):
            raise rule_error("a folder in S3 is expected", found=value, allowed=_ALLOWED)
        return value

    @model_validator(mode="after")
    def _folders_apart(self) -> Self:
        inner, outer = self.source, self.destination
        if inner.bucket == outer.bucket and (
            inner.prefix.startswith(outer.prefix) or outer.prefix.startswith(inner.prefix)
        ):
            raise rule_error(
                "a job reads all files below its input, so the output must be elsewhere",
                found=f"input = {self.input}, output = {self.output}",
                allowed="two folders, none of them in the other",
            )
        return self

    @model_validator(mode="after")
    def _concurrency_fits_reservation(self) -> Self:
        reserved = self.reserved_concurrency
        if reserved is not None and self.max_concurrency > reserved:
            raise rule_error(
                "Lambda throttles what exceeds the reserved concurrency",
                found=f"max_concurrency = {self.max_concurrency} "
                f"with reserved_concurrency = {reserved}",
                allowed=f"1 to {reserved}, or a higher reservation",
            )
        return self


def _location(url: str) -> Location:
    match = _URL.fullmatch(url)
    assert match is not None  # noqa: S101 - the validator has checked it
    return Location(match[1], f"{match[2][1:]}/" if match[2] else "")
