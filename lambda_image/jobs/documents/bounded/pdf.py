"""PDF to a block for each page, or each part of it below a bookmark."""

import ctypes
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from itertools import groupby

import pypdfium2
from pypdfium2 import raw as pdfium

from jobs.documents.bounded.parts import in_order, own_title
from jobs.documents.bounded.signatures import PDF, file_type
from jobs.documents.document import Block, Document, Outline, RefusedDocumentError
from jobs.documents.text import read_text

#: Ligatures and other forms of letters that only a font has, of Latin, Hebrew and Arabic.
_FORMS = re.compile("[\ufb00-\ufdff\ufe70-\ufefc]+")
#: A word that is divided at the end of a line, which is \x02 where PDFium sees it.
_DIVIDED = re.compile(r"(?<![^\W\d_])([^\W\d_]+)(?:\x02|[-\xad\u2010][ \t]*\n)[ \t]*([^\W\d_]+)")
_HYPHENS = str.maketrans("\x02\xad", "--")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
#: The end of a long line within a sentence: the next begins with a small letter.
_WRAPPED = re.compile(r"(?<=[^\n]{60}[^\W\d_]|[^\n]{60}[,;])\n(?=([a-zß-öø-ÿ]))")
#: The dots between a title and its page number, in a table of contents.
_LEADER = re.compile(
    r"(?<![ \t.])[ \t]*+(?:\.[ \t]*+){5,}+(?=(?:\d+|[ivxlc]+)[ \t]*+$)", re.MULTILINE
)
#: More drawn paths than the rules and frames of an empty page have.
_FEW_PATHS = 50


def read(data: bytes, _content_type: str, _wanted: Collection[str]) -> Document:
    """Read the text layer, form fields and bookmarks."""
    pdf = _opened(data)
    pdf.init_forms()
    texts: list[str] = []
    empty, broken = [], []
    for number in range(1, len(pdf) + 1):
        try:
            page = pdf[number - 1]
            text = _text(page)
            if not text.strip() and _shows_something(page):
                empty.append(number)
            texts.append("\n\n".join(filter(None, [text, _fields(pdf, page)])))
            page.close()
        except pypdfium2.PdfiumError:
            broken.append(number)
            texts.append("")
    if not any(map(str.strip, texts)):
        raise RefusedDocumentError("it has no text layer" if empty else "it has no text")
    problems = [f"{_numbered(empty)} no text layer"] if empty else []
    problems += [f"{_numbered(broken).removesuffix(' have')} cannot be read"] if broken else []
    if pdf.get_formtype() == pdfium.FORMTYPE_XFA_FULL:
        problems.append("it has an XFA form, which is not read")
    join = _joining("\n".join(texts))
    texts = [_WRAPPED.sub(" ", _DIVIDED.sub(join, text).translate(_HYPHENS)) for text in texts]
    pages = enumerate(_pages(texts, _bookmarks(pdf)), 1)
    blocks = list(in_order((page, {"page": number}) for number, page in pages))
    return Document(own_title(pdf.get_metadata_value("Title")), {}, blocks, tuple(problems))


def _opened(data: bytes) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        reasons = {
            pdfium.FPDF_ERR_PASSWORD: "it is encrypted with a password",
            pdfium.FPDF_ERR_SECURITY: "it is encrypted by a method that is not supported",
        }
        broken = (
            "it is not a valid PDF"
            if PDF in data[:1024]
            else f"it must be a PDF; found {file_type(data)}"
        )
        raise RefusedDocumentError(reasons.get(error.err_code, broken)) from None


def _text(page: pypdfium2.PdfPage) -> str:
    text = page.get_textpage().get_text_bounded().replace("\r\n", "\n")
    return _FORMS.sub(lambda forms: unicodedata.normalize("NFKC", forms[0]), _LEADER.sub(" ", text))


def _shows_something(page: pypdfium2.PdfPage) -> bool:
    """Return whether a page without text has a picture, or text as drawn outlines."""
    types = [item.type for item in page.get_objects()]
    return pdfium.FPDF_PAGEOBJ_IMAGE in types or len(types) > _FEW_PATHS


def _fields(pdf: pypdfium2.PdfDocument, page: pypdfium2.PdfPage) -> str:
    """Return the form fields with a value, a line each."""
    lines = []
    for index in range(pdfium.FPDFPage_GetAnnotCount(page) if pdf.formenv else 0):
        annotation = pdfium.FPDFPage_GetAnnot(page, index)

        def string(read: Callable[..., int], annotation: object = annotation) -> str:
            size = read(pdf.formenv, annotation, None, 0)
            buffer = ctypes.create_string_buffer(size)
            read(
                pdf.formenv,
                annotation,
                ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR)),
                size,
            )
            return buffer.raw[: max(0, size - 2)].decode("utf-16-le", errors="ignore").strip()

        name = string(pdfium.FPDFAnnot_GetFormFieldAlternateName)
        name = name or string(pdfium.FPDFAnnot_GetFormFieldName)
        value = string(pdfium.FPDFAnnot_GetFormFieldValue)
        if name and value not in {"", "Off"}:
            lines.append(f"{name}: {value}")
        pdfium.FPDFPage_CloseAnnot(annotation)
    return "\n".join(dict.fromkeys(lines))


def _numbered(numbers: list[int]) -> str:
    """Return `page 2 has`, or `pages 2 to 9 and 12 have`."""
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    ]
    names = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"page {listed} has" if len(numbers) == 1 else f"pages {listed} have"


def _joining(text: str) -> Callable[[re.Match[str]], str]:
    """Return how to join a divided word: the document's other words say whether its hyphen stays.

    In the reference manual of R 4.2, 12 of 1,795 divided words that a dictionary has keep a hyphen,
    as `semi-transparent` does; 1 of them wrongly.
    """
    words = set(map(str.lower, _WORD.findall(_DIVIDED.sub(" ", text))))

    def join(divided: re.Match[str]) -> str:
        beginning, ending = divided.groups()
        joined, compound = beginning + ending, f"{beginning}-{ending}"
        if joined.lower() in words:
            return joined
        is_compound = (
            compound.lower() in words
            or len(beginning) == 1
            or (ending[0].isupper() and not joined.isupper())
            or (len(ending) > 2 and {beginning.lower(), ending.lower()} <= words)
        )
        return compound if is_compound else joined

    return join


def _bookmarks(pdf: pypdfium2.PdfDocument) -> dict[int, list[tuple[int, str]]]:
    """Return the level and the title of the bookmarks, by the index of their page."""
    bookmarks = defaultdict(list)
    for bookmark in pdf.get_toc():
        target = bookmark.get_dest()
        page = target.get_index() if target else None
        title = " ".join(bookmark.get_title().split())
        if page is not None and title:
            bookmarks[page].append((bookmark.level + 1, title))
    return bookmarks


def _pages(texts: list[str], bookmarks: dict[int, list[tuple[int, str]]]) -> Iterator[list[Block]]:
    """Yield the paragraphs of each page, below the bookmarks that begin there or earlier.

    A bookmark begins at the line with its title, which may have a number before it, else where the
    one before it does.
    """
    outline = Outline()
    for index, text in enumerate(texts):
        count, below = len(outline.blocks), text
        for level, title in bookmarks.get(index, []):
            words = r"\s+".join(map(re.escape, title.split()))
            line = re.search(rf"^.{{0,12}}{words}.?$", below, re.MULTILINE)
            if line:
                read_text(below[: line.start()], outline)
                below = below[line.end() :]
            outline.begin(level, line[0] if line else title)
        read_text(below, outline)
        yield outline.blocks[count:]
