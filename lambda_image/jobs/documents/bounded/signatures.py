"""What a file is by its first bytes, for files whose key has another suffix."""

from jobs.documents.document import RefusedDocumentError

PDF, ZIP, OLE = b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_NAMES = {
    PDF: "a PDF",
    ZIP: "a ZIP file, as DOCX, PPTX, XLSX and EPUB are",
    OLE: "a file of Word, Excel or PowerPoint from before 2007",
    b"{\\rtf": "RTF",
    b"<!doctype html": "HTML",
    b"<html": "HTML",
    b"<?xml": "XML",
    b"\x1f\x8b": "a gzip file",
    b"\x89png": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
}
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")


def check_zip(data: bytes) -> None:
    """Refuse what is no ZIP file, such as an office file with a password."""
    if data.startswith(OLE) and _ENCRYPTED in data:
        raise RefusedDocumentError("it is encrypted with a password")
    if not data.startswith(ZIP):
        raise RefusedDocumentError(f"it must be a ZIP file; found {file_type(data)}")


def file_type(data: bytes) -> str:
    """Return the name of a file's format."""
    start = data[:1024].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    names = (name for signature, name in _NAMES.items() if start.startswith(signature.lower()))
    return next(names, f"{len(data):,} bytes of an unknown format")
