"""Render the page of the commands from their parsers, and from the comments of the scripts."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from embedding_client._arguments import parsers

__all__ = ["commands_page"]

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
    lines = [_HEAD, *_command("embed TEXT", default, whole=True)]
    for name, parser in commands.items():
        steps = [action for action in parser._actions if isinstance(action.choices, dict)]
        if steps:
            for step, inner in steps[0].choices.items():  # type: ignore[union-attr]
                lines += _command(f"embed {name} {step}", inner)
        else:
            lines += _command(f"embed {name}", parser)
    return "\n".join([*lines, *_scripts()]) + "\n"


def _command(name: str, parser: argparse.ArgumentParser, *, whole: bool = False) -> Iterator[str]:
    """Yield a command's arguments; the first has the arguments of the endpoint for all."""
    yield f"## {name}\n\n{parser.description}\n"
    groups = {group.title: group._group_actions for group in parser._action_groups}
    shared = [] if whole else groups.get("endpoint", [])
    for action in parser._actions:
        if action.help != argparse.SUPPRESS and action.dest != "help" and action not in shared:
            yield f"- {_names(action)}: {_text(parser, action)}"
    if shared:
        yield "- [the endpoint's](#embed-text): `--url`, `--region` and others"
    yield ""


def _names(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 or action.metavar is None else f" {action.metavar}"
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _text(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": parser.prog}
    choices = [*(action.choices or ())]
    allowed = ", ".join(f"`{choice}`" for choice in choices if len(choices) <= _MOST_CHOICES)
    return "; ".join(part for part in (text, allowed) if part)


def _scripts() -> Iterator[str]:
    yield "## Scripts\n"
    for script in sorted(_SCRIPTS.iterdir()):
        comment = None
        if script.is_file() and script.name not in _OTHERS:
            comment = re.search(r"^#!.*\n((?:# .*\n)+)", script.read_text(encoding="utf-8"))
        if comment:
            text = re.sub("^# ", "", comment[1], flags=re.MULTILINE)
            yield f"### scripts/{script.name}\n\n```text\n{text}```\n"
