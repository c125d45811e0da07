"""Reads `environments/NAME.toml` into one frozen, validated value. Nothing else reads those files.

What is wrong with a file is said in one error, a line for each setting: file, key, what was found
and what is allowed.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from embedding_kit.settings import (
    AlarmSettings,
    Budget,
    Callers,
    ColdStart,
    Experiment,
    FunctionSettings,
    Model,
    OnDemand,
    Release,
    RepositorySettings,
    check_together,
)
from embedding_kit.settings.base import Settings, allowed, refuse
from embedding_kit.settings.release import AllAtOnce
from embedding_kit.settings.words import find, words

__all__ = ["Environment", "EnvironmentFileError", "load_environment"]

_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_SHOWN = 80  # characters of a found value; a whole table would hide what is wrong with it


class EnvironmentFileError(ValueError):
    """An environment's file is missing, unreadable, or says something that is not allowed."""


class Environment(Settings):
    """All that one environment says: where it is, what it serves, to whom, and how carefully."""

    name: str = Field(exclude=True, description="The file's name.")
    account: (
        Annotated[
            str, Field(pattern=r"^[0-9]{12}$"), allowed("an account number of 12 digits, as text")
        ]
        | None
    ) = Field(
        default=None, description="The AWS account; the deploying shell's if unset, with `region`."
    )
    region: (
        Annotated[
            str,
            Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$"),
            allowed("a region such as eu-central-1"),
        ]
        | None
    ) = Field(default=None, description="The AWS region; the deploying shell's if unset.")
    tags: dict[str, str] = Field(
        default={}, description="Tags on every resource, beside those for cost allocation."
    )
    model: Model = Field(description="The model that is served.")
    function: FunctionSettings = Field(
        default=FunctionSettings(), description="The function's size and limits."
    )
    cold_start: ColdStart = Field(default=OnDemand(), description="What is done about cold starts.")
    release: Release = Field(default=AllAtOnce(), description="How a new version takes over.")
    experiment: Experiment | None = Field(default=None, description="Two versions side by side.")
    callers: Callers = Field(default=Callers(), description="Who may call; nobody by default.")
    alarms: AlarmSettings = Field(default=AlarmSettings(), description="When somebody is told.")
    budget: Budget | None = Field(default=None, description="What a month may cost.")
    repository: RepositorySettings = Field(
        default=RepositorySettings(), description="The images' repository."
    )

    @field_validator("tags")
    @classmethod
    def _tags_acceptable(cls, tags: dict[str, str]) -> dict[str, str]:
        for key, value in tags.items():
            if key.lower().startswith("aws:") or not 1 <= len(key) <= 128 or len(value) > 256:
                raise refuse(
                    "AWS takes no such tag",
                    found=f"{key} = {value}",
                    allowed="keys of 1 to 128 characters, not from aws: on; values up to 256",
                )
        return tags

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.account is None) != (self.region is None):
            raise refuse(
                "account and region are given together",
                found=f"account = {self.account}, region = {self.region}",
                allowed="both of them or neither",
            )
        check_together(
            function=self.function,
            cold_start=self.cold_start,
            release=self.release,
            experiment=self.experiment,
        )
        return self


def load_environment(name: str, *, folder: Path) -> Environment:
    """Read the environment of that name.

    Args:
        name: The environment's name: a file of that name, with `.toml`, stands in `folder`.
        folder: The folder of the environments' files.

    Raises:
        EnvironmentFileError: With file, key, what was found and what is allowed.
    """
    path = folder / f"{name}.toml"
    shown = f"{folder.name}/{path.name}"
    if _NAME.fullmatch(name) is None or not path.is_file():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.toml"))) or "none"
        raise EnvironmentFileError(
            f"there is no environment {name!r}: {shown} is no file; allowed: {known}"
        )
    try:
        written = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise EnvironmentFileError(f"{shown} is not TOML: {error}") from None
    if "name" in written:
        raise EnvironmentFileError(
            f"{shown}: name: found: {_quote(written['name'])}; "
            "allowed: no such key, for the file's name is the environment's"
        )
    try:
        environment = Environment.model_validate({"name": name, **written})
    except ValidationError as error:
        lines = [f"{shown}: {_explain(detail)}" for detail in error.errors()]
        raise EnvironmentFileError("\n".join(lines)) from None
    return _with_paths_from(folder, environment)


def _explain(error: ErrorDetails) -> str:
    """Turn a pydantic error into one line: key, what was found, what is allowed."""
    place = find(Environment, error["loc"])
    key = place.key or "the file"
    context = error.get("ctx", {})
    if error["type"] == "rule":
        found = _show(context["found"])
        return f"{key}: {context['rule']}; found: {found}; allowed: {context['allowed']}"
    if error["type"] == "extra_forbidden":
        known = ", ".join(name for name in place.siblings if name != "name")
        return f"{key}: unknown key; found: {_quote(error['input'])}; allowed here: {known}"
    if error["type"] == "missing":
        return f"{key}: missing; found: nothing; allowed: {words(place.annotation)}"
    if error["type"].startswith("union_tag"):
        found = _quote(context["tag"]) if "tag" in context else "nothing"
        return f"{key}.kind: found: {found}; allowed: {words(place.annotation)}"
    return f"{key}: found: {_quote(error['input'])}; allowed: {words(place.annotation)}"


def _quote(value: object) -> str:
    """Show a value as TOML writes it, so that "2" and 2 look different."""
    if isinstance(value, bool):
        return str(value).lower()
    return _show(json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value))


def _show(value: object) -> str:
    # One line for each mistake, whatever characters a value has.
    text = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value)
    )
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _with_paths_from(folder: Path, environment: Environment) -> Environment:
    """Make the file's relative paths absolute; whether they exist is the image's question."""
    model = environment.model
    paths = {"folder": model.folder, "index": model.index}
    absolute = {name: (folder / path).resolve() for name, path in paths.items() if path}
    return environment.model_copy(update={"model": model.model_copy(update=absolute)})
