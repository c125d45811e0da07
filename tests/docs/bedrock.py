"""Amazon Bedrock's ConverseStream on this machine.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html in the
encoding of https://docs.aws.amazon.com/lexv2/latest/dg/event-stream-encoding.html
"""

import json
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Bedrock(ThreadingHTTPServer):
    """A model that says `words`, one in an event."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.requests: list[dict[str, Any]] = []
        self.words, self.stop_reason = ["Every ", "two ", "months ", "[1]."], "end_turn"
        self.status, self.breaks, self.delay = 200, False, 0.0


class _Handler(BaseHTTPRequestHandler):
    server: Bedrock
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.append(json.loads(body) | {"path": self.path})
        self.send_response(self.server.status)
        if self.server.status != 200:
            self.send_header("x-amzn-errortype", "AccessDeniedException")
            message = b'{"message": "User arn:aws:iam::111122223333:role/x may not"}'
            self.send_header("content-length", str(len(message)))
            self.end_headers()
            self.wfile.write(message)
            return
        self.send_header("content-type", "application/vnd.amazon.eventstream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._send("messageStart", {"role": "assistant"})
        for word in self.server.words:
            time.sleep(self.server.delay)
            self._send("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": word}})
        if self.server.breaks:
            failure = {":message-type": "exception", ":exception-type": "modelStreamErrorException"}
            self._write(_encoded(failure, {"message": "an internal of the model"}))
        else:
            self._send("messageStop", {"stopReason": self.server.stop_reason})
            usage = {"inputTokens": 120, "outputTokens": 7, "totalTokens": 127}
            self._send("metadata", {"usage": usage, "metrics": {"latencyMs": 1}})
        self._write(b"")

    def _send(self, event: str, fields: dict[str, Any]) -> None:
        self._write(_encoded({":message-type": "event", ":event-type": event}, fields))

    def _write(self, chunk: bytes) -> None:
        """Write a chunk of HTTP/1.1; the empty one ends the response."""
        with suppress(BrokenPipeError, ConnectionResetError):  # the reader has enough
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))

    def log_message(self, *_: Any) -> None:
        pass


def _encoded(names: dict[str, str], fields: dict[str, Any]) -> bytes:
    names = names | {":content-type": "application/json"}
    headers = b"".join(
        struct.pack(f">B{len(name)}sBH", len(name), name.encode(), 7, len(value)) + value.encode()
        for name, value in names.items()
    )
    payload = json.dumps(fields).encode()
    prelude = struct.pack(">II", len(headers) + len(payload) + 16, len(headers))
    prelude += struct.pack(">I", zlib.crc32(prelude))
    message = prelude + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


@contextmanager
def bedrock() -> Iterator[Bedrock]:
    """Serve it in a thread."""
    with Bedrock() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
