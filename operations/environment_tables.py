"""Edits of whole tables in an environment's file. The rest of its text stays as it is.

An edit is checked by parsing the new text: a file whose tables are written in another way is
refused, and never half edited.
"""

import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

from stacks.environment_file import EnvironmentFileError

_HEADER = re.compile(r"^(\ufeff?[ \t]*\[+[ \t]*)([A-Za-z0-9_-]+)(?=[ \t]*[].])", re.MULTILINE)


def read_table_names(path: Path) -> list[str]:
    """Return the names of a file's tables and other top-level keys, in the order of the text."""
    return list(_parse(_read(path)))


def exchange_models(path: Path) -> None:
    """Exchange the headers of `[model]` and `[standby]`, with those of the tables in them."""
    text = _read(path)
    tables = _parse(text)
    names = {"model": "standby", "standby": "model"}
    exchanged = _HEADER.sub(lambda header: header[1] + names.get(header[2], header[2]), text)
    expected = {**tables, "model": tables["standby"], "standby": tables["model"]}
    by_hand = "to exchange the headers [model] and [standby] by hand, then the same command again"
    _write(path, exchanged, expected, by_hand)


def remove_table(path: Path, name: str) -> None:
    """Remove a table, up to the comments before the next one."""
    text = _read(path)
    expected = {key: value for key, value in _parse(text).items() if key != name}
    lines: list[str] = []
    #: The comments since the last value of the table: they may be about the next one.
    comments: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        header = _HEADER.match(line)
        if header:
            inside = header[2] == name
        if inside:
            comments = [*comments, line] if line.strip()[:1] in {"", "#"} else []
        else:
            lines += [*comments, line]
            comments = []
    by_hand = f"to take the table [{name}] out by hand, then the same command again"
    _write(path, "".join([*lines, *comments]), expected, by_hand)


def _read(path: Path) -> str:
    try:
        # As bytes, so that the line ends stay.
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFileError(f"{_shown(path)} cannot be read: {error}") from None


def _parse(text: str) -> dict[str, Any]:
    return tomllib.loads(text.removeprefix("\ufeff"))


def _write(path: Path, text: str, expected: dict[str, Any], by_hand: str) -> None:
    """Replace the file in one step, if the text has what is expected."""
    try:
        tables = _parse(text)
    except tomllib.TOMLDecodeError:
        tables = {}
    if tables != expected:
        raise EnvironmentFileError(
            f"{_shown(path)}: only tables with headers of their own, such as [model], can be "
            f"edited; found: another form; allowed: {by_hand}; nothing was changed"
        )
    rewritten = path.with_name(f".{path.name}.new")
    rewritten.write_bytes(text.encode())
    shutil.copymode(path, rewritten)
    rewritten.replace(path)


def _shown(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
