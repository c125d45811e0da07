"""Parts of answers that several APIs describe alike."""

from typing import Any

__all__ = ["INTEGER", "STRING", "STRING_OR_NULL", "USAGE", "list_of", "object_of", "vector_schema"]

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
STRING_OR_NULL = {"type": ["string", "null"]}


def object_of(**properties: dict[str, Any]) -> dict[str, Any]:
    """Describe an object that has all of these properties."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def list_of(items: dict[str, Any]) -> dict[str, Any]:
    """Describe a list, which may be empty."""
    return {"type": "array", "items": items}


#: Tokens as the model saw them, special tokens and prompts included.
USAGE = object_of(prompt_tokens=INTEGER, total_tokens=INTEGER)


def vector_schema() -> dict[str, Any]:
    """Describe a vector: numbers, or base64."""
    return {
        "anyOf": [
            {"type": "array", "items": {"type": "number"}, "minItems": 1},
            {"type": "string", "contentEncoding": "base64"},
        ]
    }
