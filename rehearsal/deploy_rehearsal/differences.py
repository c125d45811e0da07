"""Compare the properties of a template with the values that an API returns."""

from typing import Any

__all__ = ["differences", "literals"]


def literals(asked: Any) -> Any:
    """Return properties of a template with None for each intrinsic function."""
    if isinstance(asked, dict):
        if asked.keys() == {"Ref"} or any(key.startswith("Fn::") for key in asked):
            return None
        return {key: literals(value) for key, value in asked.items()}
    if isinstance(asked, list):
        return [literals(item) for item in asked]
    return asked


def differences(asked: Any, found: Any, place: str = "") -> list[str]:
    """List the plain values of a template that are missing or different in the values found."""
    if asked is None:
        return []
    if isinstance(asked, dict) and isinstance(found, dict):
        return [d for k, v in asked.items() for d in differences(v, found.get(k), f"{place}.{k}")]
    if isinstance(asked, list) and isinstance(found, list) and len(asked) == len(found):
        pairs = enumerate(zip(asked, found, strict=True))
        return [d for n, (a, f) in pairs for d in differences(a, f, f"{place}[{n}]")]
    if _plain(asked) != _plain(found):
        return [f"{place.lstrip('.')} asked {asked!r}, found {found!r}"]
    return []


def _plain(value: Any) -> Any:
    """Convert numbers and booleans, which an API may return as text, to a common form."""
    if isinstance(value, bool) or str(value).lower() in {"true", "false"}:
        return str(value).lower()
    try:
        return float(value)
    except (TypeError, ValueError):
        return value
