"""Keeps the vectors of two vector spaces apart."""

import threading

from embedding_client.errors import VectorSpaceError

__all__ = ["VectorSpaceGuard"]


class VectorSpaceGuard:
    """Remembers the vector space that answers belong to and refuses answers of another.

    A space is named `model@revision/precision/fingerprint/dimension`. Calls may ask for different
    dimensions of one space; the rest of the name must stay.

    Args:
        expected: the space that a database holds, with or without the dimension; None takes the
            first answer's.
    """

    def __init__(self, expected: str | None = None) -> None:
        self._lock = threading.Lock()
        self._given = expected
        self._family = None if expected is None else _family(expected)
        self.current = expected

    def check(self, space: str) -> None:
        """Takes note of an answer's vector space.

        Raises:
            VectorSpaceError: it is not the one of the answers before, or not the expected one.
        """
        with self._lock:
            if self._family is None:
                self._family = _family(space)
            if _family(space) != self._family or (
                _has_dimension(self._given) and space != self._given
            ):
                raise VectorSpaceError(
                    f"The endpoint answers in the vector space {space!r}, and "
                    f"{self._given or self.current!r} is in use: vectors of the two cannot be "
                    "compared. Embed everything again, or use the endpoint of the first ones."
                )
            self.current = space


def _family(space: str) -> str:
    return space.rpartition("/")[0] if _has_dimension(space) else space


def _has_dimension(space: str | None) -> bool:
    return space is not None and space.rpartition("/")[2].isdigit() and "/" in space
