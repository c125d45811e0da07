"""Mail: the plain text, else the HTML, under its subject."""

from collections.abc import Collection
from email import message_from_bytes, policy

from jobs.documents.document import Document, Outline, RefusedDocumentError
from jobs.documents.html import read_html
from jobs.documents.text import read_text

_HEADERS = ("From", "To", "Date")
_ENCRYPTED = {"application/pkcs7-mime", "application/x-pkcs7-mime", "multipart/encrypted"}


def read(data: bytes, _content_type: str, _wanted: Collection[str]) -> Document:
    """Read headers and text; attachments are left out and named, but for pictures."""
    message = message_from_bytes(data, policy=policy.default)
    if message.get_content_type() in _ENCRYPTED:
        raise RefusedDocumentError("it is encrypted")
    subject = " ".join(str(message["Subject"] or "").split())
    headers = {name: str(message[name]) for name in _HEADERS if message[name]}
    outline = Outline()
    body = message.get_body(("plain", "html"))
    if body is not None:
        outline.add("\n".join(f"{name}: {text}" for name, text in headers.items()))
        read_body = read_html if body.get_content_subtype() == "html" else read_text
        read_body(body.get_content().replace("\r\n", "\n"), outline)
        outline.end_section()
    problems = tuple(
        f"its attachment {part.get_filename() or part.get_content_type()} is not read"
        for part in message.iter_attachments()
        if part.get_content_maintype() != "image"
    )
    metadata = {name.lower(): text for name, text in headers.items()}
    return Document(subject, metadata, outline.blocks, problems)
