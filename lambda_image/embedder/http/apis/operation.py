"""The base of every operation of every API: the type of its body, and its response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import orjson

from embedder.core import errors
from embedder.core.embedding_request import Embeddings, EmbedRequest, Inputs
from embedder.http.apis.fields import choose_prompt, truncation
from embedder.http.http_types import ENVELOPE_BYTES, MAX_RESPONSE_BYTES, Request, Response
from embedder.http.json_types import Field, Object, parse_object
from embedder.http.telemetry import RequestRecord
from embedder.http.vector_encoding import check_batch, most_different, smaller, too_large

if TYPE_CHECKING:  # a reranker needs no engine
    from embedder.core.engine import Engine
    from embedder.core.loaded_model import LoadedModel
    from embedder.core.search import SearchIndex
    from embedder.http.search_prefixes import SearchPrefixes

JSON = {"content-type": "application/json"}
#: Smaller answers are neither compressed nor measured: one vector stays as it is.
_SMALL_BYTES = 16 << 10


class ServedModel(NamedTuple):
    """A model, of whatever kind, with the search index that its operations use."""

    loaded: LoadedModel
    search_index: SearchIndex | None = None
    #: Number of requests that are answered at the same time; Lambda gives an environment one.
    max_concurrent_requests: int = 1
    #: The folders that each caller may search, or None for everything.
    prefixes: SearchPrefixes | None = None
    #: The words of the search index, if they can be searched without a model.
    word_index: SearchIndex | None = None


class Api:
    """An API, with the statuses and the form of its errors."""

    name: str

    @classmethod
    def error(cls, error: errors.AnswerableError, request_id: str) -> Response:
        """Render an error; the request's id is in the header of each response."""
        status = cls.status(type(error))
        body = cls.error_body(error, status, request_id)
        return json_response(body, status=status, headers=error.headers)

    @staticmethod
    def error_body(error: errors.AnswerableError, status: int, request_id: str) -> dict[str, Any]:
        """Return the body of an error."""
        raise NotImplementedError

    #: The HTTP status of each kind of error, where it is not that of its base class.
    statuses: ClassVar[Mapping[type[errors.AnswerableError], int]] = MappingProxyType(
        {
            errors.ClientError: 400,
            errors.UnknownPathError: 404,
            errors.WrongMethodError: 405,
            errors.WrongModelError: 424,
            errors.NoIndexError: 404,
            errors.BodyTooLargeError: 413,
            errors.UnauthorizedError: 401,
            errors.CallerError: 403,
            errors.OverloadedError: 429,
            errors.ServerError: 500,
            errors.OutOfTimeError: 503,
            errors.IndexUnavailableError: 503,
            errors.ShuttingDownError: 503,
        }
    )

    @classmethod
    def status(cls, error: type[errors.AnswerableError]) -> int:
        """Return the HTTP status of a kind of error."""
        return next(
            cls.statuses[error_class]
            for error_class in error.__mro__
            if error_class in cls.statuses
        )

    #: The statuses that errors of a well-formed request may have.
    error_statuses: ClassVar[tuple[int, ...]] = (400, 413, 500, 503)


class Call(NamedTuple):
    """A request with these values in its body, all of them valid by their types."""

    values: dict[str, Any]
    request: Request
    record: RequestRecord


class Alternative(NamedTuple):
    """Another API at a path, and how a body asks for it."""

    operation: type[Operation]
    #: The field that asks for it, where none of the others is given.
    field: str
    instead_of: tuple[str, ...]


class Operation:
    """One method on one path."""

    api: type[Api]
    #: The API that some bodies are answered in; None for a path of one API.
    alternative: ClassVar[Alternative | None] = None
    #: A short, stable name, for the log and as the document's operationId.
    name: str
    summary: str
    #: A rule between the fields of the body, for the document: JSON Schema keywords.
    rule: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    #: Statuses of errors that only this operation of its API has.
    more_statuses: tuple[int, ...] = ()
    #: Whether the response holds the vectors of the inputs.
    answers_vectors = False
    #: How to ask for truncation, for errors.
    truncate_hint = 'Send "truncate": true (or "right", "left") to have it cut.'

    def __init__(
        self, model: ServedModel, counterparts: Mapping[str, Operation] = MappingProxyType({})
    ) -> None:
        """Create the operation.

        Args:
            model: The model that answers.
            counterparts: The operations of the same path and method of the other models that are
                served together with this one, by task.
        """
        self.model = model
        self.counterparts = counterparts

    @cached_property
    def body(self) -> Object | None:
        """The type of the request's body; None without one."""
        fields = self.fields()
        return Object(fields, rule=self.rule) if fields else None

    def fields(self) -> tuple[Field, ...]:
        """Return the fields of the body, which are checked, and described in the document."""
        return ()

    def serve(self, request: Request, record: RequestRecord) -> Response:
        """Answer a request, or raise an `AnswerableError` for `api.error` to render."""
        values = {} if self.body is None else self.body.check(parse_object(request.body))
        call = Call(values, request, record)
        response = self.respond(call)
        return response if len(response.body) < _SMALL_BYTES else self._fitted(response, call)

    def _fitted(self, response: Response, call: Call) -> Response:
        """Compress a large answer for a caller that takes gzip, and refuse one that does not fit.

        Lambda would refuse it too, and the caller would see a bare 502.
        """
        accepted = call.request.headers.get("accept-encoding")
        if accepted:
            from embedder.http.compression import accepts_gzip, packed  # noqa: PLC0415 - on demand

            if accepts_gzip(accepted):
                response = packed(response)
        # However many of its bytes are escaped, a body of less than half the limit fits.
        if len(response.body) < MAX_RESPONSE_BYTES // 2 - ENVELOPE_BYTES:
            return response
        body, gzip = response.body, "content-encoding" in response.headers
        # Lambda counts base64, or a JSON string: in it, a quote or a backslash takes another byte.
        size = -(-len(body) // 3) * 4 if gzip else len(body) + body.count(b'"') + body.count(b"\\")
        size += ENVELOPE_BYTES
        if size <= MAX_RESPONSE_BYTES:
            return response
        embeddings = call.record.embeddings
        if not self.answers_vectors or embeddings is None:
            raise errors.BatchTooLargeError(
                f"The answer takes {size} bytes; at most {MAX_RESPONSE_BYTES} are allowed. Ask for "
                "less in one request."
            )
        count, dimensions = embeddings.vectors.shape
        raise too_large(
            count,
            dimensions,
            call.values["output_dtype"],
            call.values.get("encoding_format", "float"),
            size=size,
            gzip=gzip,
        )

    @cached_property
    def _other(self) -> Operation | None:
        return self.alternative and self.alternative.operation(self.model)

    def chosen(self, request: Request, /) -> Operation:
        """Return the operation that answers a request, where a path serves more than one."""
        if self._other is None or self.alternative is None:
            return self
        _, field, others = self.alternative
        return self._other if is_given(request.body, field, instead_of=others) else self

    @property
    def choices(self) -> Sequence[Operation]:
        """All operations that `chosen` may return, for the document."""
        return (self,) if self._other is None else (self, self._other)

    def respond(self, call: Call, /) -> Response:
        """Answer a call."""
        raise NotImplementedError


class EmbeddingOperation(Operation):
    """An operation of an embedding model or a sparse encoder."""

    #: Where token ids of another model may come from, for errors.
    ids_hint = ""

    @cached_property
    def engine(self) -> Engine:
        """The model."""
        from embedder.core.engine import Engine  # noqa: PLC0415 - a reranker needs none

        engine = self.model.loaded
        assert isinstance(engine, Engine)  # noqa: S101 - for mypy: the routes of its task say so
        return engine

    @cached_property
    def _dense(self) -> bool:
        """Whether the model's vectors hold no 0, as those that the compiler recorded.

        False for a static model: a word's vector is a row of its table, in int8 of few numbers.
        """
        manifest = self.engine.manifest
        if manifest.graph.runtime == "numpy":
            return False
        heads = [getattr(entry, "embedding_head", ()) for entry in manifest.golden]
        return bool(heads) and all(heads) and all(all(head) for head in heads)

    def embed(
        self,
        call: Call,
        inputs: Inputs,
        *,
        field: str,
        options: dict[str, Any] | None = None,
        dimensions: int | None = None,
        alias: str | None = None,
        default_prompt: str | None = None,
    ) -> Embeddings:
        """Embed inputs as the request's options say, and note the result in the record.

        Errors name `field`, which held the inputs. The options, by default the call's values, are
        by their fields' names; `dimensions` replaces theirs. For `alias` see `choose_prompt`. If
        no prompt is chosen, it is `default_prompt`, where the model has that.
        """
        options, limits = options or call.values, self.engine.limits
        dimensions = dimensions or options.get("dimensions")
        dtype, encoding = options.get("output_dtype", ""), options.get("encoding_format", "float")
        limit = None
        if self.answers_vectors and dimensions is not None:
            check_batch(inputs.number, dimensions, dtype, encoding, field=field)
            if self._dense:
                limit = most_different(dimensions, dtype, encoding)
        prompt = choose_prompt(options, limits, alias=alias)
        if prompt is None and default_prompt in limits.prompts:
            prompt = default_prompt
        request = EmbedRequest(
            inputs=inputs,
            prompt=prompt,
            title=options.get("title"),
            dimensions=dimensions,
            truncate=truncation(options),
            normalize=options.get("normalize", True),
            add_special_tokens=options.get("add_special_tokens", False),
            most_different=limit,
            deadline=call.request.deadline,
        )
        try:
            embeddings = self.engine.embed_request(request)
        except errors.InputError as error:
            hint = ""
            if isinstance(error, errors.InputTooLongError):
                hint = self.truncate_hint
            elif isinstance(error, errors.ForeignTokenIdsError):
                hint = self.ids_hint
            in_list = inputs.is_list and error.position is not None
            name = f"{field}[{error.position}]" if in_list else field
            raise error.named(name, field=field, hint=hint) from None
        except errors.BatchTooLargeError as error:
            less = smaller(dimensions or 0, dtype, encoding)
            raise errors.BatchTooLargeError(
                f'"{field}" {error.message} Split the request{less}', field=field
            ) from None
        except errors.ClientError as error:
            # An error without a field is about the inputs.
            error.field = error.field or field
            raise
        call.record.embeddings = embeddings
        return embeddings


class Described(Operation):
    """Describes the model, and under their tasks those that are served besides it.

    A model that gives scores has other fields, so its task begins the operation's name.
    """

    def __init__(
        self, model: ServedModel, counterparts: Mapping[str, Operation] = MappingProxyType({})
    ) -> None:
        super().__init__(model, counterparts)
        manifest = model.loaded.manifest
        if manifest.scoring is not None:
            self.name = f"{manifest.task}_{self.name}"

    def respond(self, _call: Call, /) -> Response:
        descriptions = {
            task: operation.description()
            for task, operation in self.counterparts.items()
            if isinstance(operation, Described)
        }
        manifest = self.model.loaded.manifest
        headers = {f"x-{manifest.space_kind}-space": manifest.space}
        return json_response({**self.description(), **descriptions}, headers=headers)

    def description(self) -> dict[str, Any]:
        """Return the description of the model."""
        raise NotImplementedError


def is_given(body: bytes, name: str, *, instead_of: tuple[str, ...]) -> bool:
    """Return whether a body has this field, and none of the others; null counts as absent."""
    # Hardly a request of the other API holds the word, so hardly one is parsed twice.
    if f'"{name}"'.encode() not in body:
        return False
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return (
        isinstance(value, dict)
        and name in value
        and all(value.get(field) is None for field in instead_of)
    )


def json_response(
    value: Any, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Render a value, which may hold numpy arrays, as JSON."""
    return Response(
        status=status,
        body=orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY),
        headers={**JSON, **headers} if headers else JSON,
    )
