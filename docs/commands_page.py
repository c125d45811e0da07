"""Render the page of the commands from their parsers, and from the comments of the scripts."""

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from embedding_client._cli import parsers

_SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
#: Longer lists of values are in the errors.
_MOST_CHOICES = 5
#: Those for the development of the kit itself.
_OTHERS = {"bench", "demo", "lock", "rehearse", "release", "setup", "test", "test-image"}
_HEAD = """# Commands

`embed` calls an endpoint and looks at one: [the client](../client.md). `scripts/*` deploy, measure
and check, from a clone: [operations](../operations.md). `--help` prints the same.
"""


def commands_page() -> str:
    """Return the page in Markdown."""
    _, default, commands = parsers()
    lines = [_HEAD, *_command("embed TEXT", default, {})]
    for name, parser in commands.items():
        known = dict.fromkeys(_arguments(default), "embed TEXT")
        steps = [action for action in parser._actions if isinstance(action.choices, dict)]
        inner = steps[0].choices if steps else {"": parser}
        for step, one in inner.items():  # type: ignore[union-attr]
            title = f"embed {name} {step}".strip()
            lines += _command(title, one, known)
            known = dict.fromkeys(_arguments(one), title) | known
    return "\n".join([*lines, *_scripts()]) + "\n"


def _command(name: str, parser: argparse.ArgumentParser, known: Mapping[str, str]) -> Iterator[str]:
    """Yield a command's arguments; those that another command has, too, by their names alone."""
    yield f"## {name}\n\n{parser.description}\n"
    groups = {group.title: group._group_actions for group in parser._action_groups}
    endpoint = [_name(action) for action in groups.get("endpoint", [])] if known else []
    shared: dict[str, list[str]] = {}
    for line, option in _arguments(parser).items():
        if line not in known or ": " not in line:
            yield line
        elif option not in endpoint:
            shared.setdefault(known[line], []).append(option)
    for other, options in shared.items():
        yield f"- {', '.join(options)}: [as of `{other}`](#{other.lower().replace(' ', '-')})"
    if endpoint:
        yield "- [the endpoint's options](#embed-text)"
    yield ""


def _arguments(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return a line for each argument, and the argument's first name."""
    return {
        f"- {_names(action)}: {_text(parser, action)}".removesuffix(": "): _name(action)
        for action in parser._actions
        if action.help != argparse.SUPPRESS and action.dest != "help"
    }


def _name(action: argparse.Action) -> str:
    return f"`{[*action.option_strings, action.metavar or action.dest][0]}`"


def _names(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 or action.metavar is None else f" {action.metavar}"
    if not action.option_strings:
        return _name(action)
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _text(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    choices = [*(action.choices or ())]
    allowed = ", ".join(f"`{choice}`" for choice in choices if len(choices) <= _MOST_CHOICES)
    return "; ".join(part for part in (text, allowed) if part)


def _scripts() -> Iterator[str]:
    yield "## Scripts\n"
    for script in sorted(_SCRIPTS.iterdir()):
        if not script.is_file() or script.name in _OTHERS:
            continue
        if comment := re.search(r"^#!.*\n((?:# .*\n)+)", script.read_text(encoding="utf-8")):
            text = re.sub("^# ", "", comment[1], flags=re.MULTILINE)
            yield f"### scripts/{script.name}\n\n```text\n{text}```\n"
