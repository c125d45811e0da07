"""The compiler's exceptions. Each message is one line for the user of the command.

What reads a model's files raises a SourceError for one that is missing or wrong, and an
UnsupportedModelError for what the compiler cannot express; docstrings state other errors only.
"""


def printable(text: str) -> str:
    """Return one line in which nothing is left that a terminal would obey.

    A message may name a file, a tensor or a key of a model, and such a name may hold anything.
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def described(error: Exception) -> str:
    """Return an exception in a line: the value of one about bytes may be a whole file."""
    text = f"{error}" if isinstance(error, UnicodeError) else f"{error!r}"
    return text if len(text) <= 200 else f"{text[:197]}..."


class CompilerError(Exception):
    """The compiler stopped; nothing was written. The message is for the user."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class SourceError(CompilerError):
    """The model is missing, incomplete or wrong."""


class UnsupportedModelError(CompilerError):
    """The compiler cannot express a part of the model; the message names it."""


class LicenseError(CompilerError):
    """The user has not accepted the model's terms."""


class OutputError(CompilerError):
    """The artifact cannot be written to its output."""


class FidelityError(CompilerError):
    """The vectors differ too much from the model's own."""


class PrecisionError(FidelityError):
    """The vectors differ too much from those of full precision.

    `missed` has the missed thresholds, as part of a sentence.
    """

    def __init__(self, message: str, missed: str = "") -> None:
        super().__init__(message)
        self.missed = missed
