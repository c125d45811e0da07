"""A local server like S3, with the conditional requests that batches rely on."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.fixtures.local_server import QuietHandler, serving

#: Keys of an answer to a listing.
_PAGE = 1000
DATE = "Sun, 22 Nov 2026 10:00:00 GMT"


@dataclass
class LocalS3:
    """The objects of all buckets, by `bucket/key`, and the requests so far."""

    url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    #: How many of the next writes are answered with 409, as during another write of the object.
    conflicts: int = 0
    #: The status for an object that does not exist. S3 sends 403 to a role that may not list it.
    missing: int = 404
    #: The attributes of an object, by `bucket/key`.
    attributes: dict[str, dict[str, str]] = field(default_factory=dict)
    #: The tags of an object, by `bucket/key`.
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Whether a role may read them.
    tags_allowed: bool = True
    #: Method, path and headers in lower case.
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


@contextmanager
def local_s3(port: int = 0) -> Iterator[LocalS3]:
    """Serve an empty S3 at a port, or at any free one."""
    s3 = LocalS3()

    class Handler(_Handler):
        store = s3

    with serving(Handler, port=port) as s3.url:
        yield s3


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


class _Handler(QuietHandler):
    store: LocalS3

    do_HEAD = QuietHandler.do_GET  # noqa: N815 - a name that the base class looks for

    def respond(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if self.command == "PUT":
            self._write(self.read_body())
        elif "list-type" in query:
            self._list({name: values[0] for name, values in query.items()})
        elif self.path.endswith("?tagging"):
            self._tags(self._path())
        else:
            self._read()

    def _write(self, data: bytes) -> None:
        path = self._path()
        if self.store.conflicts:
            self.store.conflicts -= 1
            self._answer(409)
            return
        if self.headers["if-none-match"] == "*" and path in self.store.objects:
            self._answer(412)
            return
        if self.headers["if-match"] and path not in self.store.objects:
            self._answer(404)
            return
        if self.headers["if-match"] not in (None, _etag(self.store.objects.get(path, b""))):
            self._answer(412)
            return
        self.store.objects[path] = data
        self._answer(200, ETag=_etag(data))

    def _read(self) -> None:
        data = self.store.objects.get(self._path())
        if data is None:
            self._answer(self.store.missing)
            return
        etag = _etag(data)
        if self.headers["if-match"] not in (None, etag):
            self._answer(412)
            return
        if (ranged := self.headers["range"]) is None:
            self._answer(200, data, ETag=etag)
            return
        start, _, last = ranged.removeprefix("bytes=").partition("-")
        stop = min(int(last) + 1, len(data)) if last else len(data)
        part = data[int(start) : stop]
        found = f"bytes {start}-{stop - 1}/{len(data)}"
        self._answer(206, part, ETag=etag, Content_Range=found)

    def _tags(self, path: str) -> None:
        if path not in self.store.objects or not self.store.tags_allowed:
            status, code = (404, "NoSuchKey") if self.store.tags_allowed else (403, "AccessDenied")
            self._answer(status, f"<Error><Code>{code}</Code></Error>".encode())
            return
        tags = "".join(
            f"<Tag><Key>{escape(key)}</Key><Value>{escape(value)}</Value></Tag>"
            for key, value in self.store.tags.get(path, {}).items()
        )
        self._answer(200, f"<Tagging><TagSet>{tags}</TagSet></Tagging>".encode())

    def _list(self, query: dict[str, str]) -> None:
        """Answer with up to 1,000 keys and folders, in the encoding that the caller wants."""
        bucket = f"{self._path().strip('/')}/"
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        listed: dict[str, bytes | None] = {}
        for path, data in self.store.objects.items():
            key = path.removeprefix(bucket)
            if key != path and key.startswith(prefix):
                name, ended, _ = key[len(prefix) :].partition(delimiter or "\0")
                listed[prefix + name + ended] = None if ended else data
        begin = unquote(query.get("continuation-token", ""))
        names = sorted(name for name in listed if name > begin)
        items = ""
        for name in names[:_PAGE]:
            # XML has no control characters, so botocore asks for URL encoding.
            shown = quote(name) if query.get("encoding-type") == "url" else escape(name)
            if (data := listed[name]) is None:
                items += f"<CommonPrefixes><Prefix>{shown}</Prefix></CommonPrefixes>"
                continue
            items += (
                f"<Contents><Key>{shown}</Key><Size>{len(data)}</Size>"
                f"<ETag>{escape(_etag(data))}</ETag><LastModified>"
                f"{parsedate_to_datetime(DATE):%FT%T.000Z}"
                "</LastModified></Contents>"
            )
        more = len(names) > _PAGE
        if more:
            token = quote(names[_PAGE - 1], safe="")
            items += f"<NextContinuationToken>{token}</NextContinuationToken>"
        if query.get("encoding-type") == "url":
            items += "<EncodingType>url</EncodingType>"
        body = f"<IsTruncated>{str(more).lower()}</IsTruncated>{items}"
        self._answer(200, f"<ListBucketResult>{body}</ListBucketResult>".encode())

    def _path(self) -> str:
        path = unquote(urlsplit(self.path).path).removeprefix("/")
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.store.requests.append((self.command, path, headers))
        return path

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        path = unquote(urlsplit(self.path).path).removeprefix("/")
        attributes = self.store.attributes.get(path, {})
        self.answer(status, body, Last_Modified=DATE, **attributes, **headers)
