"""Bytes of a document to text."""

import re

from jobs.documents.document import RefusedDocumentError

_CHARSET = re.compile(r"charset=[\"']?([\w.:-]+)", re.IGNORECASE)


def decoded(data: bytes, content_type: str) -> str:
    """Decode text: UTF-8, UTF-16 with a byte order mark, or what the content type names."""
    charset = _CHARSET.search(content_type)
    name = charset[1] if charset else "utf-8-sig"
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        name = "utf-16"
    try:
        text = data.decode("utf-8-sig" if name.lower() in {"utf-8", "utf8"} else name)
    except UnicodeDecodeError as error:
        raise RefusedDocumentError(
            f"byte {error.start} is not {error.encoding}; other encodings need a charset in the "
            "content type"
        ) from None
    except (LookupError, UnicodeError):
        raise RefusedDocumentError(f"its charset must be a text encoding; found {name}") from None
    if "\0" in text:
        raise RefusedDocumentError("it has NUL characters, which text has not")
    return text
