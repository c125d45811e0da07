"""A quick server of one file, in a process of its own, so that its work is not measured.

    python -m benchmarks.download.object_server FILE [CERTIFICATE KEY]

It answers ranged GETs as S3 does and checks no signature; the tests' server does. It prints its
port.
"""

import asyncio
import re
import ssl
import sys
from pathlib import Path

__all__: list[str] = []

_ETAG = '"0123456789abcdef0123456789abcdef-20"'


async def _serve(path: Path, tls: ssl.SSLContext | None) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                await _send(path, head, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _send(path: Path, head: str, writer: asyncio.StreamWriter) -> None:
    asked = re.search(r"(?im)^range: bytes=(\d+)-(\d+)", head)
    if asked is None:
        raise ConnectionError("the request has no range")
    first, last = int(asked[1]), int(asked[2])
    count = last - first + 1
    writer.write(
        "HTTP/1.1 206 Partial Content\r\n"
        f"Content-Length: {count}\r\nContent-Range: bytes {first}-{last}/{path.stat().st_size}\r\n"
        f"ETag: {_ETAG}\r\n\r\n".encode()
    )
    await writer.drain()
    with path.open("rb") as file:
        await asyncio.get_running_loop().sendfile(writer.transport, file, first, count)


def main() -> None:
    """Serve until the process is ended."""
    tls = None
    if sys.argv[2:]:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(*sys.argv[2:])
    asyncio.run(_serve(Path(sys.argv[1]), tls))


if __name__ == "__main__":
    main()
