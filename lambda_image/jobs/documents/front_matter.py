"""Front matter: metadata at the start of Markdown."""

import csv
import re
from collections.abc import Collection
from typing import Any

from jobs.documents.document import RefusedDocumentError

_ENTRY = re.compile(r"([A-Za-z0-9_.-]+)[ \t]*:[ \t]*(.*)")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,15})?")


def split_front_matter(text: str) -> tuple[list[str], str]:
    """Return the lines between two lines `---` at the start of Markdown, and the rest."""
    lines = text.split("\n")
    if lines[0].rstrip() == "---":
        for number, line in enumerate(lines[1:], 1):
            if line.rstrip() == "---":
                return lines[1:number], "\n".join(lines[number + 1 :])
    return [], text


def front_matter(text: str, wanted: Collection[str]) -> dict[str, Any]:
    """Return the entries of front matter.

    An entry has one line, or a list one line for each item, as most of YAML's front matter. A
    wanted entry of another form is refused; others are left out.
    """
    entries: dict[str, Any] = {}
    name = ""
    for number, line in enumerate(split_front_matter(text)[0], 2):
        entry = _ENTRY.fullmatch(line.rstrip())
        item = re.fullmatch(r"\s*-\s+(.*)", line.rstrip())
        if entry:
            name = entry[1]
            if name in entries:
                raise RefusedDocumentError(f"line {number}: the front matter has {name} twice")
            entries[name] = _value(entry[2])
        elif item and name and isinstance(entries[name], list):
            entries[name].append(scalar(item[1]))
        elif line.strip() and not line.lstrip().startswith("#") and name in {*wanted, "title"}:
            raise RefusedDocumentError(
                f"line {number}: {name} in the front matter must be a value or a list of values"
            )
    return {name: value for name, value in entries.items() if value != []}


def _value(text: str) -> Any:
    """Return a value of front matter; nothing begins a list on the following lines."""
    if not text:
        return []
    if text.startswith("[") and text.endswith("]"):
        return [scalar(item) for item in next(csv.reader([text[1:-1]], skipinitialspace=True), [])]
    return scalar(text)


def scalar(text: str) -> Any:
    """Return the boolean, the number or the text that is written."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if text in {"true", "false"}:
        return text == "true"
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text
