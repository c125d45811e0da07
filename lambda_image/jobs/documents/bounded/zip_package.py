"""The parts of DOCX, PPTX and EPUB: XML in a ZIP file, with relationships between them."""

import posixpath
import zipfile
from collections.abc import Iterator
from io import BytesIO
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from jobs.documents.bounded.parts import own_title
from jobs.documents.bounded.signatures import check_zip
from jobs.documents.document import RefusedDocumentError

#: Bytes of all parts that are read, unpacked.
_MAX_BYTES = 256 * 1024 * 1024
#: The root elements of the main parts of Office Open XML.
_MAIN_PARTS = {"document": "DOCX", "presentation": "PPTX", "workbook": "XLSX"}


class ZipPackage:
    """A ZIP file whose parts are read by name, as long as all together are not too large."""

    def __init__(self, data: bytes) -> None:
        check_zip(data)
        self._zip = zipfile.ZipFile(BytesIO(data))
        self._room = _MAX_BYTES

    def part(self, name: str) -> bytes | None:
        """Return the bytes of a part, or None if it is missing."""
        try:
            entry = self._zip.getinfo(name)
        except KeyError:
            return None
        self._room -= entry.file_size
        if self._room < 0:
            raise RefusedDocumentError(f"it unpacks to more than {_MAX_BYTES:,} bytes")
        return self._zip.read(entry)

    def xml(self, name: str) -> ET.Element | None:
        """Return the root element of a part, or None if it is missing."""
        data = self.part(name)
        return None if data is None else ET.fromstring(data)  # noqa: S314 -- expat limits entities

    def main_part(self, expected: str) -> tuple[str, ET.Element]:
        """Return name and root of the main part of Office Open XML, which must be of a format."""
        for target in self.related("", "officeDocument").values():
            root = self.xml(target)
            if root is not None and _MAIN_PARTS.get(local(root.tag)) == expected:
                return target, root
            if root is not None and local(root.tag) in _MAIN_PARTS:
                raise RefusedDocumentError(
                    f"it must be {expected}; found {_MAIN_PARTS[local(root.tag)]}"
                )
        raise RefusedDocumentError(f"it must be {expected}; found another ZIP file")

    def related(self, name: str, kind: str) -> dict[str, str]:
        """Return the parts that a part refers to by a type of relationship, by their ids."""
        folder, file = posixpath.split(name)
        root = self.xml(posixpath.join(folder, "_rels", f"{file}.rels"))
        relationships = [] if root is None else list(root)
        return {
            item.get("Id", ""): posixpath.normpath(
                posixpath.join("/", folder, unquote(item.get("Target", "")))
            ).lstrip("/")
            for item in relationships
            if item.get("Type", "").endswith(f"/{kind}") and item.get("TargetMode") != "External"
        }

    def title(self) -> str:
        """Return the title among the properties of Office Open XML."""
        for name in self.related("", "core-properties").values():
            for element in children(self.xml(name), "title"):
                return own_title(element.text or "")
        return ""


def local(tag: str) -> str:
    """Return a name without its namespace, of which Office Open XML has two."""
    return tag.rpartition("}")[2]


def children(element: ET.Element | None, *path: str) -> Iterator[ET.Element]:
    """Yield the elements at the end of a path of local names."""
    for child in element if element is not None else ():
        if local(child.tag) == path[0]:
            if path[1:]:
                yield from children(child, *path[1:])
            else:
                yield child


def value(element: ET.Element | None, *path: str, of: str = "val") -> str | None:
    """Return an attribute of the first element at the end of a path, by its local name."""
    if path:
        element = next(children(element, *path), None)
    attributes = {} if element is None else element.attrib
    return next((text for name, text in attributes.items() if local(name) == of), None)
