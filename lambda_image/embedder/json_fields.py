"""Takes the fields of a JSON object one by one, each with the type that it must have.

What reads a file that someone may have edited owes an error that names the file, the field, what is
allowed and what was found. The class of the error is the reader's own.
"""

from collections.abc import Iterator
from typing import Any, NoReturn

__all__ = ["JsonFields"]


class JsonFields:
    """One JSON object, in the file or place called `where`, at the dotted `path` within it."""

    def __init__(
        self, value: object, *, where: str, error: type[Exception], path: str = ""
    ) -> None:
        self._where = where
        self._error = error
        self._path = path
        if not isinstance(value, dict):
            self.refuse("", "an object", value)
        self._values: dict[str, Any] = value
        self._left = set(value)

    def refuse(self, key: str, allowed: str, found: object) -> NoReturn:
        """Raise the reader's error: `key` must be `allowed`, and `found` stands there."""
        raise self._error(
            f"{self._where}: {self._name(key) or 'the content'} must be {allowed}; "
            f"found {_shown(found)}."
        )

    def done(self) -> None:
        """Refuse fields that nobody took: what is not known may matter."""
        if self._left:
            raise self._error(
                f"{self._where}: unknown fields {sorted(self._left)} in "
                f"{self._path or 'the outermost object'}."
            )

    def string(self, key: str) -> str:
        """Take a string."""
        value = self._take(key)
        return value if isinstance(value, str) else self.refuse(key, "a string", value)

    def optional_string(self, key: str) -> str | None:
        """Take a string or null."""
        value = self._take(key)
        if value is None or isinstance(value, str):
            return value
        return self.refuse(key, "a string or null", value)

    def integer(self, key: str) -> int:
        """Take an integer; true and false are none."""
        value = self._take(key)
        return value if type(value) is int else self.refuse(key, "an integer", value)

    def integers(self, key: str) -> tuple[int, ...]:
        """Take a list of integers."""
        return tuple(self._list(key, "a list of integers", {int}))

    def numbers(self, key: str) -> tuple[float, ...]:
        """Take a list of numbers."""
        return tuple(float(item) for item in self._list(key, "a list of numbers", {int, float}))

    def string_list(self, key: str) -> tuple[str, ...]:
        """Take a list of strings."""
        return tuple(self._list(key, "a list of strings", {str}))

    def mapping(self, key: str) -> dict[str, Any]:
        """Take an object as it is."""
        value = self._take(key)
        return value if isinstance(value, dict) else self.refuse(key, "an object", value)

    def strings(self, key: str) -> dict[str, str]:
        """Take an object whose values are strings."""
        value = self.mapping(key)
        if not all(isinstance(item, str) for item in value.values()):
            self.refuse(key, "an object of strings", value)
        return value

    def child(self, key: str) -> "JsonFields":
        """Take an object whose own fields are to be taken one by one."""
        return self._at(key, self._take(key))

    def children(self, key: str) -> "list[JsonFields]":
        """Take a list of such objects."""
        value = self._list(key, "a list of objects", {dict})
        return [self._at(f"{key}[{index}]", item) for index, item in enumerate(value)]

    def items(self) -> "Iterator[tuple[str, JsonFields]]":
        """Take every field, each an object, with its name."""
        for key in self._values:
            yield key, self.child(key)

    def _list(self, key: str, allowed: str, types: set[type]) -> list[Any]:
        value = self._take(key)
        if isinstance(value, list) and all(type(item) in types for item in value):
            return value
        return self.refuse(key, allowed, value)

    def _take(self, key: str) -> Any:
        if key not in self._values:
            raise self._error(f"{self._where}: {self._name(key)} is missing.")
        self._left.discard(key)
        return self._values[key]

    def _at(self, key: str, value: object) -> "JsonFields":
        return JsonFields(value, where=self._where, error=self._error, path=self._name(key))

    def _name(self, key: str) -> str:
        return ".".join(part for part in (self._path, key) if part)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
