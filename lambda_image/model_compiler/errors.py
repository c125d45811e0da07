"""What the compiler says when it cannot compile: one line for the person who typed the command.

CompilerError
├── SourceError           the model is not there, not whole, or not what it should be
├── UnsupportedModelError the model has a part that the compiler cannot express
├── LicenseError          the model's terms have not been accepted
├── OutputError           the artifact cannot be written
└── FidelityError         the artifact's vectors are too far from the model's own
"""

__all__ = [
    "CompilerError",
    "FidelityError",
    "LicenseError",
    "OutputError",
    "SourceError",
    "UnsupportedModelError",
]


class CompilerError(Exception):
    """The compiler stopped; nothing was written. The message is for the user."""


class SourceError(CompilerError):
    """The model is not there, is not whole, or is not what it should be."""


class UnsupportedModelError(CompilerError):
    """The model has a part that the compiler cannot express; the message names it."""


class LicenseError(CompilerError):
    """The model's terms are the user's to accept, and have not been accepted."""


class OutputError(CompilerError):
    """The artifact cannot be written where it should go."""


class FidelityError(CompilerError):
    """The vectors are too far from the model's own; the message names the worst layer."""
