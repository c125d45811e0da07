"""The vector index in S3 Vectors: its dimension, metadata keys and encryption.

The texts that the image carries are another index: `[model] index`.

Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-limitations.html,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-indexes.html, and botocore's model
of the API `s3vectors` of 2025-07-15 (length of a metadata key).
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from embedding_kit.settings.base import EachOnce, Settings, allowed, rule_error
from embedding_kit.settings.locations import KeyArn
from embedding_kit.settings.model import Model

__all__ = ["TEXT_KEY", "VectorIndexSettings", "index_dimension"]

#: The metadata key of a vector's text. AWS stores it without making it filterable.
TEXT_KEY = "text"
#: Non-filterable keys of an index; the text is one of them.
_NON_FILTERABLE = 10

_MetadataKey = Annotated[
    str, Field(min_length=1, max_length=63), allowed("a column's name of 1 to 63 characters")
]
_MetadataKeys = Annotated[tuple[_MetadataKey, ...], EachOnce]


class VectorIndexSettings(Settings):
    """An index in S3 Vectors; off without this table."""

    dimension: Annotated[int, Field(ge=1, le=4096)] | None = Field(
        default=None,
        description="The number of dimensions, one of the model's. If unset, the model's full "
        "number; a model that is not in the catalog needs this setting.",
    )
    non_filterable: _MetadataKeys = Field(
        default=(),
        strict=False,
        description="Metadata keys that a search returns and cannot filter by, so that their "
        "values may be long. `text` is always one.",
    )
    key: KeyArn | None = Field(
        default=None,
        description="The KMS key that encrypts the vectors; by default S3's own. Its policy must "
        "let `indexing.s3vectors.amazonaws.com` decrypt.",
    )
    on_destroy: Literal["retain", "delete"] = Field(
        default="retain",
        description="What happens to the vectors when the index is replaced or its stack is "
        "deleted. They can be loaded again from the output of batch jobs.",
    )

    @model_validator(mode="after")
    def _metadata_acceptable(self) -> Self:
        taken = {"id", "embedding", TEXT_KEY} & set(self.non_filterable)
        if taken:
            raise rule_error(
                "a vector has these in any case",
                found=", ".join(sorted(taken)),
                allowed="other columns",
            )
        if len(self.non_filterable) >= _NON_FILTERABLE:
            raise rule_error(
                f"AWS takes {_NON_FILTERABLE} non-filterable keys for an index, and {TEXT_KEY} "
                "is one",
                found=f"{len(self.non_filterable)} keys",
                allowed=f"up to {_NON_FILTERABLE - 1}",
            )
        return self


def index_dimension(index: VectorIndexSettings, model: Model) -> int:
    """Return the dimension of a model's index.

    Raises:
        PydanticCustomError: A `ValueError` if the model has no such dimension, or if its full
            dimension is unknown and `dimension` is unset.
    """
    known = model.known_dimensions
    if index.dimension is None:
        if not known:
            raise rule_error(
                f"the full dimension of {model.name} is known only when it is compiled",
                found="no index.dimension",
                allowed="index.dimension with the number of the model's dimensions",
            )
        return known[0]
    allowed_dimensions = {*known, *model.dimensions}
    if known and index.dimension not in allowed_dimensions:
        raise rule_error(
            "an index has the dimension of the vectors that are loaded",
            found=f"index.dimension = {index.dimension} with {model.name}",
            allowed=", ".join(map(str, sorted(allowed_dimensions, reverse=True))),
        )
    return index.dimension
