"""The options of an embedding request, as every entry point of the client accepts them."""

from typing import Literal, TypedDict

import numpy as np
import numpy.typing as npt

from embedding_client.errors import ConfigurationError

__all__ = ["DataType", "EmbedOptions", "check_options", "data_type", "numpy_type"]

DataType = Literal["float32", "int8", "uint8", "binary", "ubinary"]

# Little-endian, as the endpoint sends them.
_NUMPY: dict[str, npt.DTypeLike] = {
    "float32": "<f4",
    "int8": np.int8,
    "uint8": np.uint8,
    "binary": np.int8,
    "ubinary": np.uint8,
}


class EmbedOptions(TypedDict, total=False):
    """The options of an embedding request.

    Attributes:
        prompt: The name of one of the model's prompts. The default is the model's default prompt.
        input_type: The role of the texts (`query`, `document`, …). It selects the prompt if the
            model has one for that role. It cannot be combined with `prompt`.
        title: The title of the document, for a prompt with a placeholder for it.
        dimensions: The length of the vectors, one that the model supports. The default is the full
            length.
        dtype: `float32` (the default), `int8`, `uint8`, or `binary` and `ubinary` for bits that
            are packed eight to a byte.
        truncate: How to handle a text over the model's limit: `refuse` it, or cut off its end
            (`right`) or its start (`left`). The default is the endpoint's.
    """

    prompt: str | None
    input_type: str | None
    title: str | None
    dimensions: int | None
    dtype: DataType
    truncate: Literal["refuse", "right", "left"] | None


def check_options(options: EmbedOptions) -> None:
    """Check options before anything is sent.

    Raises:
        TypeError: If an option does not exist.
        ConfigurationError: If a value is not allowed, or two options exclude each other.
    """
    for name in options:
        if name not in EmbedOptions.__annotations__:
            known = ", ".join(EmbedOptions.__annotations__)
            raise TypeError(f"unknown option {name!r}; the options are {known}")
    if data_type(options) not in _NUMPY:
        raise ConfigurationError(
            f"dtype must be one of {', '.join(_NUMPY)}; found {data_type(options)!r}."
        )
    if options.get("prompt") is not None and options.get("input_type") is not None:
        raise ConfigurationError("Give prompt or input_type, not both.")


def data_type(options: EmbedOptions) -> DataType:
    """Return the data type of the vectors."""
    return options.get("dtype", "float32")


def numpy_type(options: EmbedOptions) -> np.dtype[np.generic]:
    """Return the numpy type of the vectors' components."""
    return np.dtype(_NUMPY[data_type(options)])
