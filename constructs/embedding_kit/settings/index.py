"""The vector index in S3 Vectors: metadata keys and dimension, and what loads may read.

The texts that the image carries are another index: `[model] index`.

Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-limitations.html,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-indexes.html, and botocore's model
of the API `s3vectors` of 2025-07-15 (length of a metadata key).
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from embedding_kit.settings.base import Distinct, Settings, allowed, optional, rule_error
from embedding_kit.settings.batch import BatchSettings
from embedding_kit.settings.locations import FolderUrl
from embedding_kit.settings.model import ModelSettings

#: The metadata key of a vector's text. AWS stores it without making it filterable.
TEXT_KEY = "text"
#: Non-filterable keys of an index; the text is one of them.
_NON_FILTERABLE = 10
#: Metadata keys of a vector, the text included.
_KEYS = 50

_MetadataKey = Annotated[
    str, Field(min_length=1, max_length=63), allowed("a column's name of 1 to 63 characters")
]
_MetadataKeys = Distinct[_MetadataKey]
#: https://docs.aws.amazon.com/AmazonS3/latest/API/API_S3VectorBuckets_TextSearchConfiguration.html
_Language = Literal["standard", "en", "fr", "es", "pt", "it", "de", "nl", "zh", "ja", "ko"]


class VectorIndexSettings(Settings):
    """An index in S3 Vectors, with a state machine that loads it; off without this table."""

    filterable: _MetadataKeys = Field(
        default=(),
        description="Columns that a load copies to the vectors' metadata, and that a search may "
        "filter by. AWS takes 2 KB of them for each vector. Without this and `non_filterable`, a "
        "load copies all columns.",
    )
    non_filterable: _MetadataKeys = Field(
        default=(),
        description="Columns that a load copies and a search only returns, so that their values "
        "may be long. `text` is always one.",
    )
    text_search: _Language | None = optional(
        "The language in which a search of mode `hybrid` compares the words of the texts; "
        "`standard` for any other one. If unset, S3 Vectors indexes no words. A change makes "
        "another index."
    )
    source: FolderUrl | None = optional(
        "The folder with the output of batch jobs, which loads may read and write their own "
        "records to. If unset, `output` of `[batch]`; without both, there is no state machine for "
        "loads."
    )

    @property
    def metadata(self) -> tuple[str, ...]:
        """The columns that a load copies; empty for all."""
        return (*self.filterable, *self.non_filterable)

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        keys = [TEXT_KEY, *self.metadata]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise rule_error(
                "a metadata key is either filterable or not, and the text never is",
                found=", ".join(twice),
                allowed=f"each key once in filterable and non_filterable, without {TEXT_KEY}",
            )
        taken = {"id", "embedding"} & set(keys)
        if taken:
            raise rule_error(
                "a vector's id and numbers are not metadata",
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
        if len(keys) > _KEYS:
            raise rule_error(
                f"AWS takes {_KEYS} metadata keys for a vector, and {TEXT_KEY} is one",
                found=f"{len(keys) - 1} keys",
                allowed=f"up to {_KEYS - 1}",
            )
        return self


def load_source(index: VectorIndexSettings, batch: BatchSettings | None) -> str | None:
    """Return the folder that loads read; None if neither table names one."""
    return index.source or (batch.output if batch else None)


def check_dimension(model: ModelSettings, index: VectorIndexSettings | None) -> None:
    """Refuse a dimension that the model's vectors do not have, and one without an index."""
    if index is not None:
        index_dimension(model)
    elif model.index_dimension is not None:
        raise rule_error(
            "only an index in S3 Vectors has a dimension",
            found=f"index_dimension of {model.name} without [index]",
            allowed="both, or none of them",
        )


def index_dimension(model: ModelSettings) -> int:
    """Return the dimension of a model's index.

    Raises:
        PydanticCustomError: A `ValueError` if the model has no such dimension, or if its full
            dimension is unknown and `index_dimension` is unset.
    """
    if model.scoring_task:
        raise rule_error(
            "an index has vectors, and a model with a task gives scores",
            found=f'an index of {model.name} with task = "{model.scoring_task}"',
            allowed="an embedding model, or no index",
        )
    dimensions, chosen = model.known_dimensions, model.index_dimension
    if chosen is None:
        if not dimensions:
            raise rule_error(
                f"the full dimension of {model.name} is known only when it is compiled",
                found="an index without index_dimension of the model",
                allowed="index_dimension with the number of the model's dimensions",
            )
        return dimensions[0]
    allowed_dimensions = {*dimensions, *model.dimensions}
    if dimensions and chosen not in allowed_dimensions:
        raise rule_error(
            "an index has the dimension of the vectors that are loaded",
            found=f"index_dimension = {chosen} with {model.name}",
            allowed=", ".join(map(str, sorted(allowed_dimensions, reverse=True))),
        )
    return chosen
