"""Lambda's handler of documents, as the image runs it."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from embedder.core.artifact import Artifact
from tests.fixtures.s3_vectors.server import local_s3_vectors
from tests.jobs.ingest.conftest import ARN

SOURCE_ROOT = Path(__file__).parents[3] / "lambda_image"
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
print(json.dumps([plan["groups"], "pypdf" in sys.modules, "pyarrow" in sys.modules]))
"""


class _Queue(BaseHTTPRequestHandler):
    bodies: list[dict[str, str]]

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_the_image_runs_messages_with_what_lambda_sets(s3, minilm_artifact: Artifact) -> None:
    """A fresh interpreter embeds a document, reports one that cannot be read, and fails alone."""
    s3.objects["documents/docs/a.md"] = b"# Title\n\nHow to parse a date?"
    s3.objects["documents/docs/b.png"] = b"\x89PNG"
    _Queue.bodies = []
    queue = HTTPServer(("127.0.0.1", 0), _Queue)
    threading.Thread(target=queue.serve_forever, args=(0.01,), daemon=True).start()
    settings = {
        "source": "s3://documents/docs/",
        "records": "s3://documents/_ingest/",
        "index": ARN,
        "dead_letters": f"http://127.0.0.1:{queue.server_port}/1/letters",
        "chunk_tokens": 64,
        "overlap_tokens": 8,
    }
    with local_s3_vectors() as served:
        served.any_credentials = True
        index = served.create("docs", 384, non_filterable=("text",))
        finished = subprocess.run(
            [sys.executable, "-W", "error", "-c", CODE],
            env={
                **{name: v for name, v in os.environ.items() if not name.startswith("EMBEDDING_")},
                "AWS_LAMBDA_FUNCTION_NAME": "ingest-dev",
                "AWS_ENDPOINT_URL_S3VECTORS": served.url,
                "AWS_ENDPOINT_URL_SQS": f"http://127.0.0.1:{queue.server_port}",
                "EMBEDDING_ARTIFACT": str(minilm_artifact.folder),
                "EMBEDDING_INGEST": json.dumps(settings),
                "PYTHONPATH": str(SOURCE_ROOT),
            },
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
    queue.shutdown()
    queue.server_close()
    assert finished.returncode == 0, finished.stderr
    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    assert {"batchItemFailures": [{"itemIdentifier": "x"}]} in lines
    assert lines[-1] == [1, False, False]
    (letter,) = (json.loads(body["MessageBody"]) for body in _Queue.bodies)
    assert letter["key"] == "b.png"
    (stored,) = index.vectors.values()
    assert stored.metadata["text"] == "How to parse a date?"
    records = [line for line in lines if isinstance(line, dict) and "_aws" in line]
    assert [record["EmbeddedChunks"] for record in records] == [1, 0]
