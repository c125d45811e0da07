"""The Model Context Protocol for agents, over stateless streamable HTTP, at `POST /mcp`.

https://modelcontextprotocol.io/specification/2025-06-18/basic/transports

A tool is the operation of another path: its input is that operation's body, and its result the body
of that operation's response. There is no session, and no message of the server's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from embedder import __version__
from embedder.core.errors import AnswerableError, ClientError, MalformedBodyError
from embedder.http.apis.operation import JSON, Api, Call, Operation
from embedder.http.http_types import Request, Response
from embedder.http.json_types import describe_value, parse_object, quote_name
from embedder.http.telemetry import RequestRecord

#: The versions of the protocol, the newest first. A client that asks for another gets the newest.
#: A server of 2025-03-26 would have to take lists of messages.
VERSIONS = ("2025-11-25", "2025-06-18")
#: https://www.jsonrpc.org/specification#error_object
_NOT_JSON, _INVALID, _NO_METHOD, _BAD_PARAMS, _FAULT = -32700, -32600, -32601, -32602, -32603


class Tool(NamedTuple):
    """A tool: its name, the operation that it calls, and its purpose."""

    name: str
    method: str
    path: str
    description: str


TOOLS = (
    Tool("search", "POST", "/search", "Find the entries of the index that answer a query best."),
    Tool("embed", "POST", "/", "Turn a text, or several, into vectors."),
    Tool("rerank", "POST", "/rerank", "Rank texts by their relevance for a query."),
    Tool("classify", "POST", "/classify", "Label a text, or several, with a score for each label."),
    Tool("describe_index", "GET", "/info", "Describe the model, its vector space and its limits."),
)


class _RpcError(ClientError):
    """A message that is refused, with a code of JSON-RPC."""

    code = "invalid_message"

    def __init__(self, rpc_code: int, message: str) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code


class Mcp(Api):
    """Errors as JSON-RPC's `{"jsonrpc": "2.0", "id": …, "error": {"code", "message"}}`."""

    name = "mcp"

    @staticmethod
    def error_body(error: AnswerableError, status: int, _request_id: str) -> dict[str, Any]:
        code = _FAULT if status >= 500 else _INVALID
        if isinstance(error, MalformedBodyError):
            code = _NOT_JSON
        code = getattr(error, "rpc_code", code)
        return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": error.message}}


class McpOperation(Operation):
    """Answers each message of an agent, with all operations by path and method."""

    api = Mcp
    name = "mcp"
    summary = "Call a tool by the Model Context Protocol."

    def __init__(self, routes: Mapping[str, Mapping[str, Operation]]) -> None:
        self._tools = {
            tool.name: (tool, routes[tool.path][tool.method])
            for tool in TOOLS
            if tool.method in routes.get(tool.path, {})
            # A classifier has labels at the root, by other servers' APIs.
            and not (tool.path == "/" and "/classify" in routes)
        }

    def serve(self, request: Request, record: RequestRecord) -> Response:
        version = request.headers.get("mcp-protocol-version")
        if version is not None and version not in VERSIONS:
            raise _RpcError(
                _INVALID,
                f"The protocol's version must be one of {', '.join(VERSIONS)}; found "
                f"{quote_name(version)}.",
            )
        message = parse_object(request.body)
        method, number = message.get("method"), message.get("id")
        if message.get("jsonrpc") != "2.0" or not isinstance(method, str):
            raise _RpcError(
                _INVALID, 'A message must have "jsonrpc": "2.0" and a "method", a string.'
            )
        if "id" not in message:
            # A notification, which has no answer.
            return Response(status=202, body=b"", headers=JSON)
        if isinstance(number, bool) or not isinstance(number, str | int):
            raise _RpcError(
                _INVALID,
                f'"id" must be a string or a whole number; found {describe_value(number)}.',
            )
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
        try:
            answer["result"] = self._result(method, message.get("params"), request, record)
        except _RpcError as error:
            record.error = error.code
            answer["error"] = {"code": error.rpc_code, "message": error.message}
        response = Response(status=200, body=orjson.dumps(answer), headers=JSON)
        return self._fitted(response, Call({}, request, record))

    def _result(
        self, method: str, params: Any, request: Request, record: RequestRecord
    ) -> dict[str, Any]:
        params = {} if params is None else params
        if not isinstance(params, dict):
            raise _RpcError(
                _BAD_PARAMS, f'"params" must be an object; found {describe_value(params)}.'
            )
        match method:
            case "initialize":
                version = params.get("protocolVersion")
                return {
                    "protocolVersion": version if version in VERSIONS else VERSIONS[0],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "embedding-kit", "version": __version__},
                }
            case "ping":
                return {}
            case "tools/list":
                return {
                    "tools": [
                        {
                            "name": tool.name,
                            "description": tool.description,
                            "inputSchema": _input_schema(operation),
                            "annotations": {"readOnlyHint": True},
                        }
                        for tool, operation in self._tools.values()
                    ]
                }
            case "tools/call":
                return self._called(params, request, record)
        raise _RpcError(
            _NO_METHOD,
            "The method must be initialize, ping, tools/list or tools/call; found "
            f"{quote_name(method)}.",
        )

    def _called(
        self, params: dict[str, Any], request: Request, record: RequestRecord
    ) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments") or {}
        if not isinstance(name, str) or name not in self._tools:
            shown = quote_name(name) if isinstance(name, str) else describe_value(name)
            raise _RpcError(
                _BAD_PARAMS, f"The tool must be one of {', '.join(self._tools)}; found {shown}."
            )
        tool, operation = self._tools[name]
        tool_request = request._replace(
            method=tool.method, path=tool.path, headers={}, body=orjson.dumps(arguments)
        )
        record.operation = operation.name
        try:
            response = operation.serve(tool_request, record)
        except ClientError as error:
            # An agent reads it, and may correct its call.
            record.error, record.field = error.code, error.field
            return {"content": [{"type": "text", "text": error.message}], "isError": True}
        return {"content": [{"type": "text", "text": response.body.decode()}], "isError": False}


def _input_schema(operation: Operation) -> dict[str, Any]:
    """Return the schema of a tool's arguments.

    An agent has no other fields to send as null, and clients refuse or weaken a schema that allows
    some: OpenAI's strict tools need false.
    """
    if operation.body is None:
        return {"type": "object"}
    return {**operation.body.schema, "additionalProperties": False}
