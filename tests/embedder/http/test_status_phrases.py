"""The phrases of statuses in answers and documents."""

import subprocess
import sys

PROGRAM = """
from http import HTTPStatus

for status in HTTPStatus:
    status.phrase = "of another interpreter"

from uvicorn.protocols.http.httptools_impl import STATUS_LINE
import embedder.server.http_protocol
from embedder.http.status_phrases import PHRASES
from tests.embedder.http.test_openapi import DOCUMENTS

assert "of another interpreter" in STATUS_LINE[418].decode(), "the test changes nothing"
documented = {
    (int(status), answer["description"])
    for document in DOCUMENTS.values()
    for path in document["paths"].values()
    for operation in path.values()
    for status, answer in operation["responses"].items()
}
assert documented <= PHRASES.items(), documented - PHRASES.items()
lines = {STATUS_LINE[status].decode() for status in PHRASES}
assert lines == {f"HTTP/1.1 {status} {text}\\r\\n" for status, text in PHRASES.items()}, lines
"""


def test_no_phrase_is_of_the_interpreter():
    """The API's document and the server's answers say the same with every version of Python."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
