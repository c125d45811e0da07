"""The search page: a search box in a browser, beside the signed API.

Its requests have no signature, so they are taken from this machine's own page alone. The name in
`Host` must be one that no foreign name server can point here (DNS rebinding), and each request that
costs work or returns texts is a POST whose `Origin` is the page's (cross-site requests).

The page is one file without a build, in which scripts and styles have no other source than that
file: its hashes are in the content security policy. Texts of documents never become markup.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx2

from embedder.core.errors import AnswerableError, CallerError, InvalidFieldError, UnknownPathError
from embedder.http.apis.native import Native
from embedder.http.json_types import Field, Object, String, parse_object
from tools.local_endpoint.events import INTERNAL_SERVER_ERROR, LambdaResponse, to_event, to_response
from tools.local_endpoint.runtime import FunctionError, Runtime
from tools.local_endpoint.signature import SignedRequest

_PREFIX = "/page/"
_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?")
_FILE = Path(__file__).with_name("search_page.html")
#: Metadata that no one filters by, and the most values that the page lists of a key.
_OWN = {"document", "title", "headings", "page", "text"}
_MOST_VALUES = 40
_DOCUMENT = Object((Field("source", String(), "The document's key.", required=True),))
_QUESTION = Object((Field("question", String(), "What the app answers.", required=True),))
#: Seconds; the function of the app has 120.
_PATIENCE = 130.0
_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

_JSON = {"content-type": "application/json"}
#: The fields of a JSON object.
_Fields = dict[str, Any]


class SearchPage:
    """Answers the requests of the page, by a function that serves the index of a folder.

    `assistant` is the address of an app that answers questions, as docs/examples/ask does.
    """

    def __init__(self, runtime: Runtime, index: Path, assistant: str | None = None) -> None:
        self._runtime, self._index, self._assistant = runtime, index, assistant
        #: Path → answer to the body of a POST. The page asks for one that it knows.
        self._answers: Mapping[str, Callable[[bytes], _Fields]] = {
            "about": self._about,
            "document": self._document,
        }

    def takes(self, request: SignedRequest) -> bool:
        """Return whether a request is the page's: those with a signature never are."""
        path = request.target.partition("?")[0]
        is_signed = "authorization" in request.headers
        return not is_signed and (
            path.startswith(_PREFIX) or (path == "/" and request.method == "GET")
        )

    def respond(self, request: SignedRequest, request_id: str) -> LambdaResponse:
        """Answer a request that the page takes; errors are those of the native API."""
        try:
            response = self._respond(request)
        except AnswerableError as error:
            refused = Native.error(error, request_id)
            response = LambdaResponse(
                status=refused.status, headers=refused.headers, body=refused.body
            )
        except FunctionError:
            response = INTERNAL_SERVER_ERROR
        headers = {**response.headers, **_HEADERS}
        return LambdaResponse(status=response.status, headers=headers, body=response.body)

    def _respond(self, request: SignedRequest) -> LambdaResponse:
        host = request.headers.get("host", "")
        if not _HOST.fullmatch(host):
            raise CallerError("The page is served to 127.0.0.1 and localhost; found another host.")
        if request.target.partition("?")[0] == "/":
            return self._html
        if request.method != "POST" or request.headers.get("origin") != f"http://{host}":
            raise CallerError("This path answers a POST of the page itself; found another origin.")
        name = request.target.removeprefix(_PREFIX)
        if name == "search":
            return self._invoke("POST", "/search", request.body)
        if name == "ask" and self._assistant is not None:
            return self._ask(self._assistant, request.body)
        if name not in self._answers:
            raise UnknownPathError("Nothing of the page is served at this path.")
        return _answer(self._answers[name](request.body))

    def _invoke(self, method: str, path: str, body: bytes = b"") -> LambdaResponse:
        headers = {"host": "127.0.0.1", "content-type": "application/json"}
        request = SignedRequest(method=method, target=path, headers=headers, body=body)
        event = to_event(request, access_key="page", source_ip="127.0.0.1")
        return to_response(self._runtime.invoke(event))

    @staticmethod
    def _ask(assistant: str, body: bytes) -> LambdaResponse:
        """Return the app's answer to a question, or its error."""
        question = _QUESTION.check(parse_object(body))["question"]
        said = {"messages": [{"role": "user", "content": question}]}
        try:
            response = httpx2.post(f"{assistant}/v1/chat/completions", json=said, timeout=_PATIENCE)
        except httpx2.HTTPError:
            return _answer({"error": f"{assistant} does not answer."}, status=502)
        return LambdaResponse(status=response.status_code, headers=_JSON, body=response.content)

    @cached_property
    def _html(self) -> LambdaResponse:
        page = _FILE.read_text("utf-8")
        policy = [
            "default-src 'none'; connect-src 'self'; img-src data:",
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            "require-trusted-types-for 'script'; trusted-types 'none'",
        ]
        for tag in ("script", "style"):
            (inline,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
            policy.append(f"{tag}-src 'sha256-{digest}'")
        headers = {
            "content-type": "text/html; charset=utf-8",
            "content-security-policy": "; ".join(policy),
        }
        return LambdaResponse(status=200, headers=headers, body=page.encode())

    def _about(self, _body: bytes) -> _Fields:
        """Return the documents, the modes, and the metadata values to filter by."""
        described = json.loads(self._invoke("GET", "/openapi.json").body)
        content = described["paths"]["/search"]["post"]["requestBody"]["content"]
        fields = content["application/json"]["schema"]["properties"]
        values: dict[str, set[Any]] = {}
        for entry in self._entries:
            for key, value in entry["metadata"].items():
                if key not in _OWN:
                    values.setdefault(key, set()).update(
                        value if isinstance(value, list) else [value]
                    )
        return {
            "model": described["info"]["summary"].partition(",")[0],
            "modes": fields["mode"]["anyOf"][0]["enum"],
            "mode": fields["mode"]["default"],
            "reranks": fields["rerank"].get("default", False),
            "answers": self._assistant is not None,
            "chunks": len(self._entries),
            "documents": [
                {"source": source, "title": chunks[0]["metadata"].get("title") or source}
                | {"chunks": len(chunks)}
                for source, chunks in self._documents.items()
            ],
            "filters": {
                key: sorted(of_key, key=lambda value: (str(type(value)), value))
                for key, of_key in sorted(values.items())
                if len(of_key) <= _MOST_VALUES
            },
        }

    def _document(self, body: bytes) -> _Fields:
        """Return the chunks of a document, in its order."""
        source = _DOCUMENT.check(parse_object(body))["source"]
        if source not in self._documents:
            raise InvalidFieldError("The index has no document of this name.", field="source")
        return {"source": source, "chunks": self._documents[source]}

    @cached_property
    def _entries(self) -> list[_Fields]:
        """The entries of the index; those without metadata are as the function numbers them."""
        return [
            entry if isinstance(entry, dict) else {"id": str(number), "text": entry, "metadata": {}}
            for number, entry in enumerate(json.loads((self._index / "entries.json").read_bytes()))
        ]

    @cached_property
    def _documents(self) -> Mapping[str, list[_Fields]]:
        """The entries of each document, by its key; other entries are of none."""
        documents: dict[str, list[_Fields]] = {}
        for entry in self._entries:
            source = entry["metadata"].get("document")
            if isinstance(source, str):
                documents.setdefault(source, []).append(entry)
        return documents


def _answer(fields: _Fields, *, status: int = 200) -> LambdaResponse:
    body = json.dumps(fields, ensure_ascii=False).encode()
    return LambdaResponse(status=status, headers=_JSON, body=body)
