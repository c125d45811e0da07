"""Lambda's handler of the watch, as the image runs it."""

import json

from tests.fixtures.s3_vectors.server import local_s3_vectors
from tests.jobs.conftest import run_as_lambda
from tests.jobs.ingest.conftest import ARN

CODE = """
import json
from jobs.watch.handler import handler
print(json.dumps(handler({"step": "watch"}, None)))
"""


def test_the_image_runs_the_watch_with_what_lambda_sets(s3, minilm_artifact):
    """A fresh interpreter compares the index with the bucket, and finds the foreign vector."""
    s3.objects["documents/docs/a.md"] = b"# Title\n\nHow to parse a date?"
    ingest = {
        "source": "s3://documents/docs/",
        "records": "s3://documents/_ingest/",
        "index": ARN,
        "dead_letters": "https://sqs/letters",
        "chunk_tokens": 64,
        "overlap_tokens": 8,
    }
    with local_s3_vectors() as served:
        served.any_credentials = True
        index = served.create("docs", 384, non_filterable=("text",))
        index.put(
            [
                {
                    "key": "other",
                    "data": {"float32": [1.0, *[0.0] * 383]},
                    "metadata": {"text": "of another program"},
                }
            ]
        )
        result = run_as_lambda(
            CODE,
            AWS_LAMBDA_FUNCTION_NAME="watch-dev",
            AWS_ENDPOINT_URL_S3VECTORS=served.url,
            EMBEDDING_ARTIFACT=str(minilm_artifact.folder),
            EMBEDDING_INGEST=json.dumps(ingest),
            EMBEDDING_WATCH=json.dumps({"sample": 10}),
        )[-1]
    assert (result["vectors"], result["unlisted"]) == (1, 1)
