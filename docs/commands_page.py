"""Render the page of the commands from their parsers, and from the comments of the scripts."""

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from embedding_client.cli import parsers

_SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
_UNTITLED = {"positional arguments", "options"}
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
        positions = dict.fromkeys(_arguments(default, default._actions), "embed TEXT")
        steps = [action for action in parser._actions if isinstance(action.choices, dict)]
        inner = steps[0].choices if steps else {"": parser}
        for step, step_parser in inner.items():  # type: ignore[union-attr]
            title = f"embed {name} {step}".strip()
            lines += _command(title, step_parser, positions)
            positions = (
                dict.fromkeys(_arguments(step_parser, step_parser._actions), title) | positions
            )
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*lines, *_scripts()]) + "\n")


def _command(name: str, parser: argparse.ArgumentParser, known: Mapping[str, str]) -> Iterator[str]:
    """Yield a command's arguments by group; those that another command has, too, as links to it."""
    yield f"## {name}\n\n{parser.description}\n"
    shared: dict[str, dict[str, None]] = {}
    for group in parser._action_groups:
        of_group = _arguments(parser, group._group_actions)
        own = [line for line in of_group if line not in known or ": " not in line]
        if own and group.title not in _UNTITLED:
            yield f"\n**{group.title}**\n"
        yield from own
        for line in [line for line in of_group if line not in own]:
            option = "the endpoint's options" if group.title == "endpoint" else of_group[line]
            shared.setdefault(known[line], {})[option] = None
    if shared:
        links = (
            f"[{', '.join(options)}](#{command.lower().replace(' ', '-')})"
            for command, options in shared.items()
        )
        yield f"\nAlso {', '.join(links)}."
    yield ""


def _arguments(
    parser: argparse.ArgumentParser, actions: Iterable[argparse.Action]
) -> dict[str, str]:
    """Return a line for each argument, and the argument's first name."""
    return {
        f"- {_names(action)}: {_text(parser, action)}".removesuffix(": "): _name(action)
        for action in actions
        if action.help != argparse.SUPPRESS and action.dest != "help"
    }


def _name(action: argparse.Action) -> str:
    return f"`{[*action.option_strings, action.metavar or action.dest][0]}`"


def _names(action: argparse.Action) -> str:
    if not action.option_strings:
        return _name(action)
    choices = "|".join(map(str, action.choices or ()))
    value = "" if action.nargs == 0 else f" {action.metavar or choices or action.dest.upper()}"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _text(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return (action.help or "") % {**vars(action), "prog": parser.prog}


def _scripts() -> Iterator[str]:
    yield "## Scripts\n"
    for script in sorted(_SCRIPTS.iterdir()):
        if not script.is_file() or script.name in _OTHERS:
            continue
        if comment := re.search(r"^#!.*\n((?:# .*\n)+)", script.read_text(encoding="utf-8")):
            text = re.sub("^# ", "", comment[1], flags=re.MULTILINE)
            yield f"### scripts/{script.name}\n\n```text\n{text}```\n"
