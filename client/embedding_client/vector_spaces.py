"""Prevents mixing the vectors of two vector spaces."""

import threading

from embedding_client.errors import VectorSpaceError
from embedding_client.forks import renew_after_fork

__all__ = ["VectorSpaceGuard"]


class VectorSpaceGuard:
    """Holds the vector space of the responses and refuses responses from another one.

    The name of a vector space is `model@revision/precision/fingerprint/dimensions`. Calls may use
    different dimensions of one space. The rest of the name must be the same.

    Args:
        expected: The vector space of a database, with or without the dimensions. With None, the
            first response sets it.
    """

    def __init__(self, expected: str | None = None) -> None:
        self._renew()
        renew_after_fork(self)
        self._expected = expected
        self._family = None if expected is None else _family(expected)
        self.current = expected

    def _renew(self) -> None:
        """Make a new lock; called in a forked process."""
        self._lock = threading.Lock()

    def check(self, space: str) -> None:
        """Check the vector space of a response.

        Raises:
            VectorSpaceError: If it differs from the expected one, or from earlier responses.
        """
        with self._lock:
            if self._family is None:
                self._family = _family(space)
            if _family(space) != self._family or (
                _has_dimensions(self._expected) and space != self._expected
            ):
                raise VectorSpaceError(
                    f"The endpoint uses the vector space {space!r}; expected "
                    f"{self._expected or self.current!r}. Vectors of two spaces cannot be "
                    "compared. Embed all texts again, or use the endpoint of the stored vectors."
                )
            self.current = space


def _family(space: str) -> str:
    return space.rpartition("/")[0] if _has_dimensions(space) else space


def _has_dimensions(space: str | None) -> bool:
    return space is not None and space.rpartition("/")[2].isdigit() and "/" in space
