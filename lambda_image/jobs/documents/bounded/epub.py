"""EPUB: each chapter by the reader of HTML, in the order of the book."""

import posixpath
import re
from collections.abc import Collection, Iterator
from html import unescape
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from jobs.documents.bounded.parts import in_order, own_title
from jobs.documents.bounded.zip_package import ZipPackage, children, local, value
from jobs.documents.decoding import decoded
from jobs.documents.document import Block, Document, Outline, RefusedDocumentError
from jobs.documents.html import read_html

#: Methods that hide fonts alone: https://www.w3.org/TR/epub-33/#sec-font-obfuscation.
_OF_FONTS = {"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"}
_LINK = re.compile(r"<a\b[^<>]*?\bhref=[\"']([^\"'#]+)[^>]*>(.*?)</a>", re.DOTALL)
_TAG = re.compile(r"<[^<>]*>")


def read(data: bytes, _content_type: str, _wanted: Collection[str]) -> Document:
    """Read the chapters. One without headings has its title in the table of contents."""
    package = ZipPackage(data)
    _refuse_encrypted(package)
    container = package.xml("META-INF/container.xml")
    name = value(container, "rootfiles", "rootfile", of="full-path") or ""
    root = package.xml(name)
    if root is None:
        raise RefusedDocumentError("it must be EPUB; found another ZIP file")
    files, contents = _manifest(root, posixpath.dirname(name))
    titles = _titles(package, contents)
    headings: tuple[str, ...] = ()
    chapters: list[list[Block]] = []
    missing = []
    for item in children(root, "spine", "itemref"):
        # The book has a file once, and its table of contents is no chapter.
        file = files.pop(item.get("idref", ""), "")
        if file in contents:
            continue
        chapter = package.part(file)
        if chapter is None:
            missing.append(file)
            continue
        outline = Outline()
        read_html(decoded(chapter, ""), outline)
        outline.end_section()
        if any(block.headings for block in outline.blocks):
            headings = outline.blocks[-1].headings[:1]
        else:
            headings = (titles[file],) if file in titles else headings
            outline.blocks = [block._replace(headings=headings) for block in outline.blocks]
        chapters.append(outline.blocks)
    problems = tuple(f"its chapter {file} is missing" for file in missing)
    title = next((item.text or "" for item in children(root, "metadata", "title")), "")
    return Document(
        own_title(title), {}, list(in_order((chapter, {}) for chapter in chapters)), problems
    )


def _refuse_encrypted(package: ZipPackage) -> None:
    methods = {
        value(item, "EncryptionMethod", of="Algorithm")
        for item in children(package.xml("META-INF/encryption.xml"), "EncryptedData")
    }
    if methods - _OF_FONTS or package.part("META-INF/sinf.xml"):
        raise RefusedDocumentError("it is encrypted by a shop's rights management (DRM)")


def _manifest(root: Element, folder: str) -> tuple[dict[str, str], set[str]]:
    """Return the names of the files by their ids, and those that are tables of contents."""
    files, contents = {}, set()
    for item in children(root, "manifest", "item"):
        file = posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        files[item.get("id", "")] = file
        if "nav" in item.get("properties", "").split() or item.get("media-type", "").endswith(
            "ncx+xml"
        ):
            contents.add(file)
    return files, contents


def _titles(package: ZipPackage, contents: Collection[str]) -> dict[str, str]:
    """Return the first title that a table of contents has for each file."""
    titles: dict[str, str] = {}
    for name in contents:
        part = package.part(name) or b""
        folder = posixpath.dirname(name)
        links = _ncx(package, name) if name.endswith(".ncx") else _LINK.findall(decoded(part, ""))
        for target, title in links:
            file = posixpath.normpath(posixpath.join(folder, unquote(target.partition("#")[0])))
            titles.setdefault(file, " ".join(unescape(_TAG.sub("", title)).split()))
    return titles


def _ncx(package: ZipPackage, name: str) -> Iterator[tuple[str, str]]:
    root = package.xml(name)
    for point in root.iter() if root is not None else ():
        if local(point.tag) == "navPoint":
            text = next((item.text or "" for item in children(point, "navLabel", "text")), "")
            yield value(point, "content", of="src") or "", text
