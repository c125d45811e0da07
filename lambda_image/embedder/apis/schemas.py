"""Parts of answers that several APIs describe alike."""

from typing import Any

__all__ = ["USAGE", "vector_schema"]

#: Tokens as the model saw them, special tokens and prompts included.
USAGE: dict[str, Any] = {
    "type": "object",
    "properties": {"prompt_tokens": {"type": "integer"}, "total_tokens": {"type": "integer"}},
    "required": ["prompt_tokens", "total_tokens"],
}


def vector_schema() -> dict[str, Any]:
    """Describe a vector: numbers, or base64."""
    return {
        "anyOf": [
            {"type": "array", "items": {"type": "number"}, "minItems": 1},
            {"type": "string", "contentEncoding": "base64"},
        ]
    }
