"""Read `environments/NAME.toml`. Only `operations.environment_tables` reads their text, to edit it.

An error lists all mistakes of a file, one per line: file, key, value found and values allowed.
"""

import json
import re
import tomllib
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from stacks.descriptions import describe, export_schema, find
from stacks.environment import EnvironmentSettings

#: An ECR repository name must not end with a hyphen or have two in a row.
#: https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_CreateRepository.html
_NAME = re.compile(r"(?=.{1,31}$)[a-z][a-z0-9]*(-[a-z0-9]+)*")
_NAME_ALLOWED = (
    "1 to 31 lower-case letters and digits, a letter first, with single hyphens between them"
)
_SHOWN = 80  # Characters shown of a value; a whole table would hide the mistake.


class EnvironmentFileError(ValueError):
    """An environment file is missing or unreadable, or has values that are not allowed."""


def load_environment(name: str, *, folder: Path, licensed: bool = True) -> EnvironmentSettings:
    """Load the environment of that name.

    Args:
        name: The file's name without `.toml`, which is the environment's name; or FILE/BRANCH for
            another environment with the same settings, which is destroyed whole.
        folder: The folder of the environment files.
        licensed: Whether the terms of the model's license must be accepted, as to deploy it.

    Raises:
        EnvironmentFileError: The message has file, key, value found and values allowed.
    """
    base, slash, branch = name.partition("/")
    if slash and _NAME.fullmatch(base) and (folder / f"{base}.toml").is_file():
        name = f"{base}-{branch}"
        if _NAME.fullmatch(name) is None or (folder / f"{name}.toml").exists():
            raise EnvironmentFileError(
                f"a branch is an environment FILE-BRANCH; found: {name}; allowed: {_NAME_ALLOWED}, "
                "without a file of that name"
            )
        own = {"name": name, "branch_of": base, "removal_policy": "destroy"}
        return _load(base, own, folder=folder, licensed=licensed)
    return _load(name, {"name": name}, folder=folder, licensed=licensed)


def _load(name: str, own: dict[str, str], *, folder: Path, licensed: bool) -> EnvironmentSettings:
    """Load a file, with settings that it does not decide."""
    path = folder / f"{name}.toml"
    shown = f"{folder.name}/{path.name}"
    if Path(name).name == name and path.is_file() and _NAME.fullmatch(name) is None:
        raise EnvironmentFileError(
            f"{shown}: the file's name is not allowed, for it becomes a part of the repository's; "
            f"found: {name}; allowed: {_NAME_ALLOWED}"
        )
    if _NAME.fullmatch(name) is None or not path.is_file():
        stems = sorted(file.stem for file in folder.glob("*.toml"))
        stems_allowed = ", ".join(stem for stem in stems if _NAME.fullmatch(stem)) or "none"
        raise EnvironmentFileError(f"there is no environment {name!r}; allowed: {stems_allowed}")
    written = _read(path, shown)
    for key in sorted({"name", "branch_of"} & set(written)):
        raise EnvironmentFileError(
            f"{shown}: {key}: found: {_quote(written[key])}; "
            "allowed: no such key, for the file's name is the environment's"
        )
    try:
        return EnvironmentSettings.model_validate(
            {**written, **own}, context={"licensed": licensed, "folder": folder}
        )
    except ValidationError as error:
        # A key that is misspelled comes before the one that is missing for it.
        details = sorted(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
        lines = [
            f"{shown}: {_explain(detail)}" for detail in details if not _follows(detail, details)
        ]
        raise EnvironmentFileError("\n".join(lines)) from None


def _read(path: Path, shown: str) -> dict[str, Any]:
    try:
        # Some editors on Windows write a byte order mark before UTF-8.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise EnvironmentFileError(f"{shown} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise EnvironmentFileError(
            f"{shown} is not TOML; found: the byte 0x{error.object[error.start]:02x} at offset "
            f"{error.start}; allowed: text in UTF-8"
        ) from None
    except RecursionError:
        raise EnvironmentFileError(
            f"{shown} is not TOML; found: values nested too deeply; allowed: a table in a table"
        ) from None
    except ValueError as error:  # A syntax error, or a number with thousands of digits.
        raise EnvironmentFileError(f"{shown} is not TOML: {error}") from None


def _follows(error: ErrorDetails, errors: list[ErrorDetails]) -> bool:
    """Say whether a list is too short only because its entries with other errors do not count."""
    place = error["loc"]
    return error["type"] == "too_short" and any(
        other["loc"][: len(place)] == place for other in errors if other is not error
    )


def _explain(error: ErrorDetails) -> str:
    """Format a pydantic error as one line: key, value found, values allowed."""
    key, schema, siblings = find(_schema(), error["loc"])
    context = error.get("ctx", {})
    if error["type"] == "rule":
        found = _show(context["found"])
        # A rule of several tables has no key.
        prefix = f"{key}: " if key else ""
        return f"{prefix}{context['rule']}; found: {found}; allowed: {context['allowed']}"
    if error["type"] == "extra_forbidden":
        allowed, written = ", ".join(siblings), str(error["loc"][-1])
        near = get_close_matches(written, siblings, n=1, cutoff=0.7)
        meant = f", did you mean {near[0]}?" if near else ""
        return (
            f"{key}: unknown key{meant}; found: {_quote(error['input'])}; allowed here: {allowed}"
        )
    if error["type"] == "missing":
        return f"{key}: missing; found: nothing; allowed: {describe(schema)}"
    if error["type"].startswith("union_tag"):
        found = _quote(context["tag"]) if "tag" in context else "nothing"
        return f"{key}.kind: found: {found}; allowed: {describe(schema)}"
    return f"{key}: found: {_quote(error['input'])}; allowed: {describe(schema)}"


@cache
def _schema() -> dict[str, Any]:
    return export_schema(EnvironmentSettings)


def _quote(value: object) -> str:
    """Format a value as TOML does, so that "2" and 2 look different."""
    if isinstance(value, bool):
        return str(value).lower()
    return _show(json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value))


def _show(value: object) -> str:
    # One line per mistake, whatever characters a value contains.
    text = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value)
    )
    # The missing part of a path is at its end, so a path is shown whole.
    is_short = isinstance(value, Path) or len(text) <= _SHOWN
    return text if is_short else f"{text[:_SHOWN]}..."
