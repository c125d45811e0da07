"""The embedder's exceptions.

A `StartError` fails the cold start; an `AnswerableError` becomes a response. A client error's
message names the mistake, the allowed values and the value found. It never quotes a text to embed.
"""

from typing import Any, Self


class EmbedderError(Exception):
    """The root of the tree."""


class StartError(EmbedderError):
    """The embedder cannot start."""


class SettingsError(StartError):
    """An environment variable is unknown or has a bad value; the message names it."""


class ArtifactError(StartError):
    """The artifact cannot be served; the message names the value found and the allowed values."""


class ArtifactDownloadError(StartError):
    """The artifact did not arrive from S3 complete and unchanged; the message says why."""


class IndexFolderError(StartError):
    """The local search index cannot be served."""


class AnswerableError(EmbedderError):
    """An error that the caller receives, with the field of the request that is at fault."""

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
    """The function was not invoked with the event of a Function URL or of a REST API."""

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
    """There is no search index, or it has no vectors yet."""

    code = "no_index"


class BodyTooLargeError(ClientError):
    """The body is over Lambda's limit."""

    code = "body_too_large"


class UnauthorizedError(ClientError):
    """The request has no key of the server, or a wrong one."""

    code = "invalid_api_key"


class CallerError(ClientError):
    """The caller may not search here."""

    code = "caller_not_allowed"


class OverloadedError(ClientError):
    """As much work waits in the server as may wait."""

    code = "overloaded"


class MalformedBodyError(ClientError):
    """The body is not a JSON object in UTF-8."""

    code = "malformed_body"


class InvalidFieldError(ClientError):
    """A field is unknown, missing, of the wrong type, or has a value that is not allowed."""

    code = "invalid_field"


class InputError(ClientError):
    """An input cannot be embedded.

    The engine knows an input by its position, None for all. The API that received the input knows
    its field, and makes the error for the caller with `named`. The problem is the rest of a
    sentence with the input as its subject. The name is the input's place in the request's body;
    the field that is reported is the same by default.
    """

    def __init__(
        self,
        problem: str,
        *,
        name: str | None = None,
        field: str | None = None,
        position: int | None = None,
    ) -> None:
        if name is not None:
            subject = f'"{name}"'
        else:
            subject = "The request" if position is None else f"Input {position}"
        super().__init__(f"{subject} {problem}", field=field or name)
        self.problem = problem
        self.position = position

    def named(self, name: str, *, field: str, hint: str = "") -> Self:
        """Return the same error about a field of a request's body, with a hint to the caller."""
        problem = f"{self.problem} {hint}" if hint else self.problem
        return type(self)(problem, name=name, field=field)


class EmptyInputError(InputError):
    """There is nothing to embed."""

    code = "empty_input"


class InputTooLongError(InputError):
    """A text has more characters or tokens than allowed."""

    code = "input_too_long"


class ForeignTokenIdsError(InputError, InvalidFieldError):
    """Token ids lack the special tokens that show which tokenizer made them."""


class BatchTooLargeError(ClientError):
    """The request asks for more vectors than an answer can carry."""

    code = "batch_too_large"


class ServerError(AnswerableError):
    """The server failed."""

    code = "internal_error"
    #: The message of an error without one.
    default = "The request could not be served."

    def __init__(self, message: str = "", *, headers: dict[str, str] | None = None) -> None:
        super().__init__(message or self.default, headers=headers)


class OutOfTimeError(ServerError):
    """Not enough time is left before Lambda's or the server's timeout."""

    code = "out_of_time"


class ShuttingDownError(ServerError):
    """The server takes no more requests, because it is about to stop."""

    code = "shutting_down"

    def __init__(self) -> None:
        message = "The server is about to stop and takes no more requests. Send the request again."
        super().__init__(message, headers={"retry-after": "1"})


class InferenceError(ServerError):
    """The model gave no vector or score for the distinct input at `place`, if it is known."""

    code = "inference_failed"
    default = "The model could not embed this request."

    def __init__(self, message: str = "", *, place: int | None = None) -> None:
        super().__init__(message)
        self.place = place


class IndexFailedError(ServerError):
    """The search index cannot be searched until somebody changes its settings or permissions."""

    code = "index_failed"
    default = "The search index could not be searched."


class ForeignIndexError(IndexFailedError):
    """The vectors of the search index are of a vector space that the model does not serve."""

    code = "index_of_another_vector_space"


class IndexUnavailableError(ServerError):
    """The search index did not answer in time; a later request may succeed."""

    code = "index_unavailable"

    def __init__(self) -> None:
        message = "The search index did not answer. Send the request again later."
        super().__init__(message, headers={"retry-after": "1"})


def fault(error: BaseException) -> dict[str, Any]:
    """Return the classes and places of an exception, never its message, which may quote a text."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    cause = error.__cause__
    return {
        "type": type(error).__name__,
        "cause": type(cause).__name__ if cause is not None else None,
        "trace": frames,
    }
