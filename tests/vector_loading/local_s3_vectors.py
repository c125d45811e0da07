"""A stand-in for S3 Vectors on this machine: one index, with AWS's limits.

Each request is checked against botocore's model of the API and against the limits of
https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-limitations.html.
"""

import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import unquote

import botocore.session
from botocore import xform_name
from botocore.validate import ParamValidator

ARN = "arn:aws:s3vectors:eu-central-1:123456789012:bucket/vectors-1/index/docs-1"
MODEL = botocore.session.Session().get_service_model("s3vectors")
OPERATIONS = {
    f"/{name}": name
    for name in ("GetIndex", "PutVectors", "GetVectors", "DeleteVectors", "ListVectors")
}


class Refused(Exception):  # noqa: N818 - an answer, not an error of the stand-in
    """An answer with an error."""

    def __init__(self, message: str, code: str = "ValidationException", status: int = 400) -> None:
        super().__init__(message)
        self.code, self.status = code, status


@dataclass
class LocalS3Vectors:
    """An index, its vectors by their keys, and the requests so far."""

    url: str = ""
    dimension: int = 32
    non_filterable: list[str] = field(default_factory=lambda: ["text"])
    tags: dict[str, str] = field(default_factory=dict)
    vectors: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: How many of the next writes are answered with 429.
    throttled: int = 0
    #: The keys of vectors that no request may write.
    refused: set[str] = field(default_factory=set)
    #: Called after each write.
    after_put: Callable[[], None] = lambda: None
    #: The name of each operation, and its parameters.
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, operation: str) -> int:
        """Return the number of requests of an operation."""
        return sum(name == operation for name, _ in self.requests)

    def answer(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Answer a request."""
        shape = MODEL.operation_model(operation).input_shape
        report = ParamValidator().validate(parameters, shape)
        if report.has_errors():
            raise Refused(report.generate_report())
        arn = parameters.get("indexArn") or parameters.get("resourceArn")
        if arn != ARN:
            raise Refused(f"{arn} could not be found", "NotFoundException", 404)
        with self.lock:
            self.requests.append((operation, parameters))
            answer: dict[str, Any] = getattr(self, f"_{xform_name(operation)}")(parameters)
        return answer

    def _get_index(self, _: dict[str, Any]) -> dict[str, Any]:
        return {
            "index": {
                "vectorBucketName": "vectors-1",
                "indexName": "docs-1",
                "indexArn": ARN,
                "creationTime": 1795000000,
                "dataType": "float32",
                "dimension": self.dimension,
                "distanceMetric": "cosine",
                "metadataConfiguration": {"nonFilterableMetadataKeys": self.non_filterable},
            }
        }

    def _list_tags_for_resource(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"tags": self.tags}

    def _tag_resource(self, parameters: dict[str, Any]) -> dict[str, Any]:
        self.tags.update(parameters["tags"])
        return {}

    def _put_vectors(self, parameters: dict[str, Any]) -> dict[str, Any]:
        if self.throttled:
            self.throttled -= 1
            raise Refused("Rate exceeded", "TooManyRequestsException", 429)
        vectors = parameters["vectors"]
        if not 1 <= len(vectors) <= 500:
            raise Refused(f"{len(vectors)} vectors")
        keys = [vector["key"] for vector in vectors]
        if len(set(keys)) < len(keys):
            raise Refused("a key is there twice")
        for vector in vectors:
            self._check(vector)
        self.vectors.update((vector["key"], vector) for vector in vectors)
        self.after_put()
        return {}

    def _check(self, vector: dict[str, Any]) -> None:
        numbers = vector["data"]["float32"]
        if len(numbers) != self.dimension:
            raise Refused(f"{len(numbers)} dimensions")
        if not all(map(math.isfinite, numbers)) or not any(numbers):
            raise Refused("the vector has no direction")
        if len(vector["key"]) > 1024 or vector["key"] in self.refused:
            raise Refused("the key is not allowed")
        metadata = vector.get("metadata", {})
        filterable = {k: v for k, v in metadata.items() if k not in self.non_filterable}
        if len(metadata) > 50 or _size(metadata) > 40 * 1024 or _size(filterable) > 2 * 1024:
            raise Refused("too much metadata")
        for value in metadata.values():
            values = value if isinstance(value, list) else [value]
            if not values or not all(isinstance(each, str | bool | int | float) for each in values):
                raise Refused("metadata is text, numbers, booleans and lists")

    def _get_vectors(self, parameters: dict[str, Any]) -> dict[str, Any]:
        if len(parameters["keys"]) > 100:
            raise Refused("too many keys")
        found = [self.vectors[key] for key in parameters["keys"] if key in self.vectors]
        return {"vectors": found}

    def _delete_vectors(self, parameters: dict[str, Any]) -> dict[str, Any]:
        if len(parameters["keys"]) > 500:
            raise Refused("too many keys")
        for key in parameters["keys"]:
            self.vectors.pop(key, None)
        return {}

    def _list_vectors(self, parameters: dict[str, Any]) -> dict[str, Any]:
        segments, segment = parameters.get("segmentCount", 1), parameters.get("segmentIndex", 0)
        if not 0 <= segment < segments <= 16:
            raise Refused("no such segment")
        keys = sorted(self.vectors)[segment::segments]
        start, size = int(parameters.get("nextToken", 0)), parameters.get("maxResults", 500)
        if size > 1000:
            raise Refused("too many results")
        answer: dict[str, Any] = {"vectors": [{"key": key} for key in keys[start : start + size]]}
        if start + size < len(keys):
            answer["nextToken"] = str(start + size)
        return answer


def _size(metadata: dict[str, Any]) -> int:
    return len(json.dumps(metadata, ensure_ascii=False, separators=(",", ":")).encode())


@contextmanager
def local_s3_vectors() -> Iterator[LocalS3Vectors]:
    """Serve an empty index."""
    served = LocalS3Vectors()

    class Handler(_Handler):
        index = served

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    index: ClassVar[LocalS3Vectors]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""

    def do_GET(self) -> None:
        self._serve("ListTagsForResource", {"resourceArn": self._tagged()})

    def do_POST(self) -> None:
        size = int(self.headers["content-length"])
        body = self.rfile.read(size)
        if self.path.startswith("/tags/"):
            self._serve("TagResource", {"resourceArn": self._tagged(), **json.loads(body)})
        elif size > 20 * 1024 * 1024:
            self._send(413, {"message": "the request is too large"}, "ValidationException")
        else:
            self._serve(OPERATIONS[self.path], json.loads(body))

    def _tagged(self) -> str:
        return unquote(self.path.removeprefix("/tags/"))

    def _serve(self, operation: str, parameters: dict[str, Any]) -> None:
        assert "Credential=" in self.headers["authorization"]
        try:
            answer = self.index.answer(operation, parameters)
        except Refused as refused:
            self._send(refused.status, {"message": str(refused)}, refused.code)
        else:
            self._send(200, answer)

    def _send(self, status: int, body: dict[str, Any], error: str = "") -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        if error:
            self.send_header("x-amzn-errortype", error)
        self.end_headers()
        self.wfile.write(data)
