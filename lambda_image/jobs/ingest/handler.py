"""Lambda's entry: messages of SQS with events of S3, and the steps of a reconciliation.

The model is loaded when the module is imported, once for each execution environment.
"""

import os

import botocore.session
import orjson

from embedder.core.artifact import load_artifact
from embedder.core.engine import Engine
from embedder.core.settings import Settings
from jobs.ingest.run import IngestSettings, entry, open_documents
from jobs.steps import logged, read_settings

_settings = Settings.from_env(os.environ)
_ingest = read_settings(
    IngestSettings, orjson.loads(os.environ["EMBEDDING_INGEST"]), name="EMBEDDING_INGEST"
)
_engine = Engine.load(
    load_artifact(_settings.artifact),
    threads=_settings.threads,
    max_characters=_settings.max_characters,
)
_queues = botocore.session.Session().create_client("sqs", region_name=_settings.region)


def _send(body: str) -> None:
    _queues.send_message(QueueUrl=_ingest.dead_letters, MessageBody=body)


_documents, _reconcile = open_documents(_ingest, _engine, send=_send)
handler = entry(logged(_documents, _settings), logged(_reconcile, _settings))
