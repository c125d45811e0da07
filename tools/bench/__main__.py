"""The command `scripts/bench`: measure this project and its peers in one run on one machine."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from embedding_client.cli import whole
from embedding_kit.programs import exit_with
from tools.bench import model, quality, server, shapes, soak, tokenizer_speed
from tools.bench.report import ROOT, as_json, as_table, this_machine
from tools.figure import bars

#: `scripts/bench NAME` → the module with its `measure`, and its further `OPTIONS`.
_SUBJECTS: Mapping[str, ModuleType] = {
    "bench": model,
    "quality": quality,
    "server": server,
    "shapes": shapes,
    "soak": soak,
    "tokenizers": tokenizer_speed,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure a subject; print and save the results; return 1 if Embedding Kit exceeds a target."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = words.pop(0) if words and words[0] in _SUBJECTS else "bench"
    options = _parser(name).parse_args(words)
    if options.quick:
        options.rounds = 1
    machine = this_machine()
    run = _SUBJECTS[name].measure(options)
    table, numbers = as_table(run, machine), as_json(run, machine)
    path = options.cache / "results" / f"{getattr(options, 'family', None) or name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix, text in ((".json", numbers), (".md", table), (".svg", bars(numbers))):
        path.with_suffix(suffix).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{table}\nsaved: {path}, and the same as .md and .svg\n")
    for missed in run.missed:
        sys.stdout.write(f"over its target: {missed}\n")
    return 1 if run.missed else 0


def _parser(name: str) -> argparse.ArgumentParser:
    other_subjects = ", ".join(
        f"`scripts/bench {subject}`" for subject in _SUBJECTS if subject != "bench"
    )
    parser = argparse.ArgumentParser(
        prog="scripts/bench" if name == "bench" else f"scripts/bench {name}",
        description=_SUBJECTS[name].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"Other subjects, with other options: {other_subjects}.",
    )
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter with the other libraries")
    parser.add_argument(
        "--quick", action="store_true", help="a short run: only to see that it works"
    )
    parser.add_argument("--rounds", type=whole(1, 1000), default=3, help="default: %(default)s")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "bench")
    for option, settings in getattr(_SUBJECTS[name], "OPTIONS", {}).items():
        parser.add_argument(option, **settings)
    return parser


if __name__ == "__main__":
    exit_with(main)
