"""Bytes of a document to text, as browsers do it: https://encoding.spec.whatwg.org."""

import codecs
import re

from jobs.documents.document import RefusedDocumentError

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]+)", re.IGNORECASE)
_COMMENT = re.compile(rb"<!--.*?(?:-->|$)", re.DOTALL)
#: The bytes of HTML that may declare its encoding.
_DECLARING = 1024
_DECLARATION = re.compile(
    rb"<\?xml\s[^>]*encoding\s*=\s*[\"']([^\"'>]+)|<meta\s[^>]*charset\s*=\s*[\"']?\s*([^\s\"'/>;]+)",
    re.IGNORECASE,
)
#: Encodings that the web reads as others, which have more characters, and names that Python lacks.
_SUPERSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "windows-31j": "cp932",
    "windows-874": "cp874",
    "iso-8859-8-i": "iso8859-8",
}
#: Encodings of one byte that the web reads with control characters in place of gaps.
_CODE_PAGE = re.compile(r"cp125\d|cp874")
#: Codecs of Python that are no encodings of documents.
_OTHERS = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"}
_DECLARED = "it declares this itself"
#: Encodings in which text is no UTF-8 by chance, but pages in UTF-8 often declare.
_ONE_BYTE = re.compile(r"cp125\d|cp874|iso8859-\d+|koi8-.")


def _as_control(error: UnicodeError) -> tuple[str, int]:
    """Decode a byte that a code page of Windows lacks as a control character."""
    if not isinstance(error, UnicodeDecodeError) or not 0x80 <= error.object[error.start] < 0xA0:
        raise error
    return chr(error.object[error.start]), error.start + 1


codecs.register_error("control", _as_control)


def decoded(data: bytes, content_type: str, *, is_html: bool = False) -> str:
    """Return the text of a document.

    Its encoding is that of its byte order mark, else of the content type, else the one that HTML
    declares, else UTF-8. HTML that declares one of one byte, but is UTF-8, is read as that. Bytes
    that the encoding lacks are a `RefusedDocumentError`, and NUL too.
    """
    label, how = _label(data, content_type, is_html=is_html)
    name = _codec(label)
    if how == _DECLARED and _ONE_BYTE.fullmatch(name) and _is_utf_8(data):
        name = "utf-8"
    try:
        text = data.decode(name, "control" if _CODE_PAGE.fullmatch(name) else "strict")
    except UnicodeDecodeError as error:
        raise RefusedDocumentError(
            f"byte {error.start} is not {label} (0x{data[error.start]:02x}); {how}"
        ) from None
    if "\0" in text:
        raise RefusedDocumentError("it has NUL characters, which text has not")
    return text.removeprefix("\ufeff")


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _label(data: bytes, content_type: str, *, is_html: bool) -> tuple[str, str]:
    """Return the label of the encoding, and what to do if it is wrong."""
    for mark, label in _MARKS.items():
        if data.startswith(mark):
            return label, "its byte order mark says so"
    if charset := _CHARSET.search(content_type):
        return charset[1], "its content type says so"
    if is_html and (match := _DECLARATION.search(_COMMENT.sub(b"", data[:_DECLARING]))):
        label = (match[1] or match[2]).decode("latin-1")
        # What was read as ASCII up to here is not UTF-16.
        return "utf-8" if label.lower().startswith("utf-16") else label, _DECLARED
    place = "<meta charset> or the content type" if is_html else "the content type"
    return "utf-8", f"save it as UTF-8, or name its charset in {place}"


def _codec(label: str) -> str:
    """Return Python's name of an encoding of the web."""
    for name in (label.lower(), label.lower().removeprefix("x-")):
        try:
            codec = codecs.lookup(_SUPERSETS.get(name, name))
            "".encode(codec.name)  # a `LookupError` if it is no encoding of text
        except (LookupError, ValueError):
            continue
        if codec.name not in _OTHERS:
            return _SUPERSETS.get(codec.name, codec.name)
    raise RefusedDocumentError(f"its charset must be a text encoding; found {label}")
