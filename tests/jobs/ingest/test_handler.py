"""Lambda's handler of documents, as the image runs it."""

import json

from tests.fixtures.local_server import QuietHandler, serving
from tests.fixtures.s3_vectors.server import local_s3_vectors
from tests.jobs.conftest import run_as_lambda
from tests.jobs.ingest.conftest import ARN

CODE = """
import json, sys
from jobs.ingest.handler import handler
class Context:
    aws_request_id = "1"
    def get_remaining_time_in_millis(self):
        return 900_000
def event(key):
    detail = {"bucket": {"name": "documents"}, "object": {"key": key}}
    body = json.dumps({"time": "2026-09-21T15:33:20Z", "detail": detail})
    return {"messageId": key, "body": body}
records = [event("docs/a.md"), event("docs/b.png"), {"messageId": "x", "body": "no"}]
print(json.dumps(handler({"Records": records}, Context())))
plan = handler({"step": "plan", "defaults": {}, "job": {}}, Context())
print(json.dumps([plan["groups"], "pypdfium2" in sys.modules, "pyarrow" in sys.modules]))
"""


class _Queue(QuietHandler):
    bodies: list[dict[str, str]]

    def respond(self) -> None:
        self.bodies.append(json.loads(self.read_body()))
        self.answer(200, b"{}")


def test_the_image_runs_messages_with_what_lambda_sets(s3, minilm_artifact):
    """A fresh interpreter embeds a document, reports one that cannot be read, and fails alone."""
    s3.objects["documents/docs/a.md"] = b"# Title\n\nHow to parse a date?"
    s3.objects["documents/docs/b.png"] = b"\x89PNG"
    _Queue.bodies = []
    settings = {
        "source": "s3://documents/docs/",
        "records": "s3://documents/_ingest/",
        "index": ARN,
        "chunk_tokens": 64,
        "overlap_tokens": 8,
    }
    with local_s3_vectors() as served, serving(_Queue) as queue:
        settings["dead_letters"] = f"{queue}/1/letters"
        served.any_credentials = True
        index = served.create("docs", 384, non_filterable=("text",))
        lines = run_as_lambda(
            CODE,
            AWS_LAMBDA_FUNCTION_NAME="ingest-dev",
            AWS_ENDPOINT_URL_S3VECTORS=served.url,
            AWS_ENDPOINT_URL_SQS=queue,
            EMBEDDING_ARTIFACT=str(minilm_artifact.folder),
            EMBEDDING_INGEST=json.dumps(settings),
        )
    assert {"batchItemFailures": [{"itemIdentifier": "x"}]} in lines
    assert lines[-1] == [1, False, False]
    (letter,) = (json.loads(body["MessageBody"]) for body in _Queue.bodies)
    assert letter["key"] == "b.png"
    (stored,) = index.vectors.values()
    assert stored.metadata["text"] == "How to parse a date?"
    records = [line for line in lines if isinstance(line, dict) and "_aws" in line]
    assert [record["EmbeddedChunks"] for record in records] == [1, 0]
