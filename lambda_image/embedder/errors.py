"""Everything that can go wrong on purpose, in one tree, and what each dialect answers to it.

    EmbedderError
    ├── StartError              the embedder cannot start; nobody is answered
    │   ├── SettingsError       an environment variable is unknown or has a bad value
    │   ├── ArtifactError       the compiled model cannot be read, or is not whole
    │   └── IndexFolderError    the carried search index cannot be read, or is of another space
    ├── ClientError             the request is at fault; its message is for the caller
    │   ├── NotAnEventError     what the function was invoked with is no HTTP request
    │   ├── UnknownPathError    nothing is served there
    │   ├── WrongMethodError    something is served there, by another method
    │   ├── WrongModelError     the path is for another kind of model
    │   ├── NoIndexError        a search, and the image carries no index
    │   ├── BodyTooLargeError   over what Lambda lets in
    │   ├── MalformedBodyError  not JSON, not UTF-8, not an object, missing
    │   ├── InvalidFieldError   a field is unknown, missing, of the wrong type or not allowed
    │   ├── EmptyInputError     nothing to embed: no text, blank text, no tokens
    │   ├── InputTooLongError   more characters or tokens than allowed
    │   └── BatchTooLargeError  more texts than the answer has room for
    └── ServerError             the server is at fault; the message shows nothing of its inside
        ├── OutOfTimeError      the time that Lambda allows would not do
        └── InferenceError      the model did not give a vector

A client error's message says what was wrong, what is allowed and what was found. It never quotes
text that was sent to be embedded.
"""

from typing import NamedTuple

__all__ = [
    "ArtifactError",
    "BatchTooLargeError",
    "BodyTooLargeError",
    "ClientError",
    "EmbedderError",
    "EmptyInputError",
    "IndexFolderError",
    "InferenceError",
    "InputTooLongError",
    "InvalidFieldError",
    "MalformedBodyError",
    "NoIndexError",
    "NotAnEventError",
    "OutOfTimeError",
    "ServerError",
    "SettingsError",
    "StartError",
    "Statuses",
    "UnknownPathError",
    "WrongMethodError",
    "WrongModelError",
    "statuses_of",
]


class EmbedderError(Exception):
    """The root of the tree."""


class StartError(EmbedderError):
    """The embedder cannot start."""


class SettingsError(StartError):
    """An environment variable is unknown or has a bad value; the message names it."""


class ArtifactError(StartError):
    """The folder cannot be served; the message says what was found and what is allowed."""


class IndexFolderError(StartError):
    """The carried search index cannot be served."""


class AnswerableError(EmbedderError):
    """An error that is told to the caller.

    Args:
        message: for the caller, as a sentence.
        field: the field of the request that is at fault, where one is.
        headers: what the answer must carry beside the body.
    """

    #: A short, stable name for programs, in the answer and in the log.
    code = "error"

    def __init__(
        self, message: str, *, field: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.headers = headers or {}


class ClientError(AnswerableError):
    """The request is at fault."""

    code = "invalid_request"


class NotAnEventError(ClientError):
    """What the function was invoked with is not a Function URL's event."""

    code = "not_a_function_url_event"


class UnknownPathError(ClientError):
    """Nothing is served at this path."""

    code = "unknown_path"


class WrongMethodError(ClientError):
    """This path is served by another method."""

    code = "wrong_method"


class WrongModelError(ClientError):
    """This path is for another kind of model than the one that is served."""

    code = "wrong_model_type"


class NoIndexError(ClientError):
    """The image carries no search index."""

    code = "no_index"


class BodyTooLargeError(ClientError):
    """The body is over what Lambda lets in."""

    code = "body_too_large"


class MalformedBodyError(ClientError):
    """The body is not a JSON object in UTF-8."""

    code = "malformed_body"


class InvalidFieldError(ClientError):
    """A field is unknown, missing, of the wrong type, or has a value that is not allowed."""

    code = "invalid_field"


class EmptyInputError(ClientError):
    """There is nothing to embed."""

    code = "empty_input"


class InputTooLongError(ClientError):
    """A text has more characters or tokens than allowed."""

    code = "input_too_long"


class BatchTooLargeError(ClientError):
    """The request asks for more vectors than an answer can carry."""

    code = "batch_too_large"


class ServerError(AnswerableError):
    """The server is at fault."""

    code = "internal_error"

    def __init__(self, message: str = "The request could not be served.") -> None:
        super().__init__(message)


class OutOfTimeError(ServerError):
    """What is left of Lambda's timeout would not do."""

    code = "out_of_time"


class InferenceError(ServerError):
    """The model did not give a vector."""

    code = "inference_failed"

    def __init__(self) -> None:
        super().__init__("The model could not embed this request.")


class Statuses(NamedTuple):
    """The HTTP status of one kind of error in each family of dialects."""

    native: int
    openai: int
    tei: int


# The one place where an error becomes a status. TEI's are those of its code (`impl From<&ErrorType>
# for StatusCode` in router/src/http/server.rs), not those of its docs/openapi.json, which says 413
# for a batch that the code refuses with 422.
_STATUSES: dict[type[AnswerableError], Statuses] = {
    NotAnEventError: Statuses(native=400, openai=400, tei=400),
    UnknownPathError: Statuses(native=404, openai=404, tei=404),
    WrongMethodError: Statuses(native=405, openai=405, tei=405),
    WrongModelError: Statuses(native=424, openai=424, tei=424),
    NoIndexError: Statuses(native=404, openai=404, tei=404),
    BodyTooLargeError: Statuses(native=413, openai=413, tei=413),
    MalformedBodyError: Statuses(native=400, openai=400, tei=400),
    InvalidFieldError: Statuses(native=400, openai=400, tei=422),
    EmptyInputError: Statuses(native=400, openai=400, tei=400),
    InputTooLongError: Statuses(native=413, openai=400, tei=422),
    BatchTooLargeError: Statuses(native=413, openai=400, tei=422),
    OutOfTimeError: Statuses(native=503, openai=503, tei=429),
    InferenceError: Statuses(native=500, openai=500, tei=424),
    ServerError: Statuses(native=500, openai=500, tei=500),
}


def statuses_of(error: AnswerableError) -> Statuses:
    """Return the statuses of an error, those of its nearest listed ancestor."""
    for kind in type(error).__mro__:
        if kind in _STATUSES:
            return _STATUSES[kind]
    raise AssertionError(f"{type(error).__name__} has no status")
