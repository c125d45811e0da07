"""Batch jobs: where they read and write, and how much of the account they may use.

Source: https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from embedding_kit.settings.base import Settings, optional, rule_error
from embedding_kit.settings.locations import FolderUrl, Location, location_of


class BatchSettings(Settings):
    """Batch jobs over files in S3, with another function; off without this table."""

    input: FolderUrl = Field(
        description="The folder that jobs may read, in an existing bucket of the same region."
    )
    output: FolderUrl = Field(
        description="The folder that jobs may write, in an existing bucket of the same region. It "
        "must not contain `input` or be in it."
    )
    memory_mb: Annotated[int, Field(ge=128, le=10240)] = Field(
        default=1769, description="Memory of the function in MB, of which 1,769 are one vCPU."
    )
    max_concurrency: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=20, description="The highest number of shards that are embedded at a time."
    )
    reserved_concurrency: Annotated[int, Field(ge=1)] | None = optional(
        "Concurrency that is reserved for the function, from `max_concurrency` up. It is taken "
        "from the account's quota, so that jobs and callers never take each other's."
    )

    @property
    def source(self) -> Location:
        """The folder that jobs may read."""
        return location_of(self.input)

    @property
    def destination(self) -> Location:
        """The folder that jobs may write."""
        return location_of(self.output)

    @model_validator(mode="after")
    def _jobs_possible(self) -> Self:
        inner, outer = self.source, self.destination
        if inner.bucket == outer.bucket and (
            inner.prefix.startswith(outer.prefix) or outer.prefix.startswith(inner.prefix)
        ):
            raise rule_error(
                "a job reads all files below its input, so the output must be elsewhere",
                found=f"input = {self.input}, output = {self.output}",
                allowed="two folders, none of them in the other",
            )
        reserved = self.reserved_concurrency
        if reserved is not None and self.max_concurrency > reserved:
            raise rule_error(
                "Lambda throttles what exceeds the reserved concurrency",
                found=f"max_concurrency = {self.max_concurrency} "
                f"with reserved_concurrency = {reserved}",
                allowed=f"1 to {reserved}, or a higher reservation",
            )
        return self
