"""The activation functions of gated feed-forward layers, by their names in transformers."""

from collections.abc import Callable

from model_compiler.errors import UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph.builder import GraphBuilder

__all__ = ["activate", "read_activation"]


def _gelu(builder: GraphBuilder, value: str) -> str:
    """Add the exact form, with the error function; it differs by up to 5e-4 from the other."""
    return builder.op.Gelu(value)


def _tanh_gelu(builder: GraphBuilder, value: str) -> str:
    return builder.microsoft.FastGelu(value)


def _relu(builder: GraphBuilder, value: str) -> str:
    return builder.op.Relu(value)


def _silu(builder: GraphBuilder, value: str) -> str:
    """Multiply by the sigmoid; ONNX Runtime's QuickGelu with a factor of 1 does it in one pass."""
    return builder.microsoft.QuickGelu(value, alpha=1.0)


_ACTIVATIONS: dict[str, Callable[[GraphBuilder, str], str]] = {
    "gelu": _gelu,
    "gelu_fast": _tanh_gelu,
    "gelu_new": _tanh_gelu,
    "gelu_python": _gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "relu": _relu,
    "silu": _silu,
    "swish": _silu,
}


def read_activation(config: ConfigFile, key: str) -> str:
    """Read the name of an activation function.

    Raises:
        UnsupportedModelError: If the compiler does not support it.
        SourceError: If it is missing or not a string.
    """
    name = config.string(key)
    if name not in _ACTIVATIONS:
        raise UnsupportedModelError(
            f"{config.path}: {key} {name!r} is not a supported activation; "
            f"the compiler supports {', '.join(_ACTIVATIONS)}."
        )
    return name


def activate(builder: GraphBuilder, value: str, name: str) -> str:
    """Apply the function to each component of a value."""
    return _ACTIVATIONS[name](builder, value)
