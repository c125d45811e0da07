"""Lambda's entry: messages of SQS with events of S3, and the steps of a reconciliation."""

import botocore.session

from jobs.ingest.run import LETTER_CONFIG, entry, open_documents, start
from jobs.steps import logged

_settings, _ingest, _engine = start()
_queues = botocore.session.Session().create_client(
    "sqs", region_name=_settings.region, config=LETTER_CONFIG
)


def _send(body: str) -> None:
    _queues.send_message(QueueUrl=_ingest.dead_letters, MessageBody=body)


_documents, _reconcile = open_documents(_ingest, _engine, send=_send)
handler = entry(logged(_documents, _settings), logged(_reconcile, _settings))
