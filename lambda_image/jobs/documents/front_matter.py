"""Front matter: metadata at the start of Markdown, as YAML or TOML."""

import json
import math
import re
import tomllib
from collections.abc import Collection, Sequence
from datetime import date, time
from typing import Any, NamedTuple

import yaml

from jobs.documents.document import RefusedDocumentError

#: The most characters of front matter.
_MAX_SIZE = 64 * 1024
#: The most values that are read although YAML wants quotes around them.
_MAX_UNQUOTED = 20
_ENDS = {"---": ("---", "..."), "+++": ("+++",)}
#: The name of an entry. A sentence before a colon is longer.
_NAME = re.compile(r"[\w.-]+( [\w.-]+)?")
#: Lines of a mapping, in which prose between two rules has others.
_LINES = {
    "---": re.compile(r"\s*(#.*)?|[ \t].*|-[ \t].*|[\"'\w.-]+( [\"'\w.-]+)?:([ \t].*)?|[\]}].*"),
    "+++": re.compile(r"\s*(#.*)?|[ \t].*|[\"'\w.-]+[ \t]*=.*|[\[\]}].*"),
}
#: An entry whose value is meant as text, though YAML reads a mark in it.
_UNQUOTED = re.compile(r"([\w.-]+:[ \t]+)([^\s\[{'\"|>&*!#].*)")
_COMMENT = re.compile(r"[ \t]#")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,15})?")
_TOML_KEY = re.compile(r"\s*\[*\s*[\"']?([\w-]+)")
_TOML_LINE = re.compile(r" \(at line (\d+), column \d+\)")
_BOOLEANS = ("true", "false")
_OTHER_FORM = object()


class _Entry(NamedTuple):
    name: str
    #: None if it is absent, `_OTHER_FORM` if it is no value and no list of values.
    value: Any
    line: int


class _BrokenError(Exception):
    """Front matter that its language does not allow."""

    def __init__(self, language: str, problem: str, line: int) -> None:
        super().__init__(f"line {line}: the front matter is not {language}: {problem}")


def split_front_matter(text: str, wanted: Collection[str]) -> tuple[dict[str, Any], str]:
    """Return the wanted entries at the start of Markdown, with its title, and the rest.

    Front matter is a mapping in YAML between lines `---`, or in TOML between lines `+++`; other
    lines between two rules are text. Null is absent. An entry that is wanted must be a value or a
    list of values, and be there once: if not, or if the mapping is broken, it is a
    `RefusedDocumentError`.
    """
    lines = text.split("\n")
    mark = lines[0].rstrip()
    if mark not in _ENDS or not "".join(lines[1:2]).strip():
        return {}, text
    marks = (number for number, line in enumerate(lines) if number and line.rstrip() in _ENDS[mark])
    end = next(marks, 1)
    is_mapping = all(map(_LINES[mark].fullmatch, lines[1:end]))
    size = sum(map(len, lines[1:end]))
    if size > _MAX_SIZE:
        if is_mapping:
            raise RefusedDocumentError(
                f"its front matter has {size:,} characters; up to {_MAX_SIZE:,} are allowed"
            )
        return {}, text
    try:
        entries = (_read_yaml if mark == "---" else _read_toml)(lines[1:end])
    except _BrokenError as error:
        if is_mapping:
            raise RefusedDocumentError(str(error)) from None
        entries = []
    if not entries:
        return {}, text
    return _chosen(entries, wanted), "\n".join(lines[end + 1 :])


def _chosen(entries: Sequence[_Entry], wanted: Collection[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value, line in entries:
        is_readable = value is not _OTHER_FORM and not (name == "title" and isinstance(value, list))
        if name in wanted:
            if name in values:
                raise RefusedDocumentError(f"line {line}: the front matter has {name} twice")
            if not is_readable:
                raise RefusedDocumentError(
                    f"line {line}: {name} in the front matter must be a value or a list of values"
                )
            values[name] = value
        elif name == "title" and is_readable:
            values[name] = value
    return {name: value for name, value in values.items() if value is not None}


def _read_yaml(lines: list[str]) -> list[_Entry]:
    """Return the entries of YAML, none if it is no mapping.

    Of its types, only true, false, null and plain numbers are read: `yes`, `0o17`, `1:30` and dates
    are text, as their writers see them.
    """
    for _ in range(_MAX_UNQUOTED):
        try:
            root = yaml.compose("\n".join(lines), Loader=yaml.SafeLoader)
            break
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line if error.problem_mark else 0
            entry = _UNQUOTED.fullmatch(lines[line]) if line < len(lines) else None
            if entry is None:
                raise _BrokenError("YAML", error.problem or "it is cut", line + 2) from None
            value = _COMMENT.split(entry[2])[0].rstrip()
            lines[line] = entry[1] + json.dumps(value, ensure_ascii=False)
        except yaml.YAMLError:
            raise _BrokenError("YAML", "it has control characters", 2) from None
        except RecursionError:
            raise _BrokenError("YAML", "it has too many levels", 2) from None
    else:
        raise _BrokenError("YAML", f"more than {_MAX_UNQUOTED} values need quotes", 2)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    if not all(isinstance(key.value, str) and _NAME.fullmatch(key.value) for key, _ in pairs):
        return []
    return [_Entry(key.value, _yaml_value(node), key.start_mark.line + 2) for key, node in pairs]


def _yaml_value(node: yaml.Node) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return _list([_yaml_scalar(item) for item in node.value])
    return _yaml_scalar(node)


def _yaml_scalar(node: yaml.Node) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        return _OTHER_FORM
    tag = node.tag.rpartition(":")[2]
    if tag == "null":
        return None
    if tag == "bool":
        return scalar(node.value.lower()) if node.value.lower() in _BOOLEANS else node.value
    return node.value.strip() if tag == "str" else scalar(node.value)


def _read_toml(lines: list[str]) -> list[_Entry]:
    try:
        values = tomllib.loads("\n".join(lines))
    except RecursionError:
        raise _BrokenError("TOML", "it has too many levels", 2) from None
    except ValueError as error:
        problem = _TOML_LINE.split(str(error))
        line = int(problem[1]) if len(problem) > 1 else len(lines)
        raise _BrokenError("TOML", problem[0], line + 1) from None
    begins = [_TOML_KEY.match(line) for line in lines]
    names = [begin[1] if begin else "" for begin in begins]
    return [
        _Entry(name, _toml_value(value), names.index(name) + 2 if name in names else 2)
        for name, value in values.items()
    ]


def _toml_value(value: Any) -> Any:
    if isinstance(value, list):
        return _list([_toml_scalar(item) for item in value])
    return _toml_scalar(value)


def _toml_scalar(value: Any) -> Any:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, str | bool):
        return value
    if isinstance(value, int | float) and math.isfinite(value):
        return value if abs(value) < 2**53 else str(value)
    return _OTHER_FORM


def _list(items: list[Any]) -> Any:
    if _OTHER_FORM in items:
        return _OTHER_FORM
    return [item for item in items if item is not None] or None


def scalar(text: str) -> Any:
    """Return the boolean, the number or the text that is written."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if text in _BOOLEANS:
        return text == "true"
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return text
