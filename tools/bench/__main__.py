"""The command `scripts/bench`: measure this project and its peers in one run on one machine."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from embedding_client.cli import whole
from embedding_kit.programs import exit_with
from tools.bench import arm64, model, quality, server, shapes, soak, tokenizer_speed
from tools.bench.processor import hide_amx
from tools.bench.report import ROOT, as_json, as_page, this_machine
from tools.figure import bars

#: `scripts/bench NAME` → the module with its `measure`, and its further `OPTIONS`.
_SUBJECTS: Mapping[str, ModuleType] = {
    "bench": model,
    "arm64": arm64,
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
    if options.quick and options.record:
        raise SystemExit("error: --record needs a whole run; found: --quick")
    if options.quick:
        options.rounds = 1
    if options.hide_amx:
        hide_amx()
    machine = this_machine(amx_hidden=options.hide_amx)
    run = _SUBJECTS[name].measure(options)
    table, numbers = as_page(run, machine), as_json(run, machine)
    words = [name] * (name != "bench") + [getattr(options, "family", None) or name]
    path = options.cache / "results" / f"{'-'.join(dict.fromkeys(words))}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix, text in ((".json", numbers), (".md", table), (".svg", bars(numbers))):
        path.with_suffix(suffix).write_text(text, encoding="utf-8")
    if getattr(options, "record", False):
        _record(name, options, json.loads(numbers))
    sys.stdout.write(f"{table}\nsaved: {path}, and the same as .md and .svg\n")
    for missed in run.missed:
        sys.stdout.write(f"over its target: {missed}\n")
    return 1 if run.missed else 0


def _record(name: str, options: argparse.Namespace, run: object) -> None:
    """Put a run into the results that the pages show, of models by their names."""
    file = ROOT / "docs" / ("performance.json" if name == "bench" else f"{name}.json")
    if name != "server":
        run = {**json.loads(file.read_text("utf-8")), options.family or model.GEMMA: run}
    file.write_text(json.dumps(run, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


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
    parser.add_argument(
        "--peers", action="store_true", help="with other libraries, which are installed in .cache"
    )
    parser.add_argument(
        "--hide-amx", action="store_true", help="as on a processor without AMX (Linux, x86)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a short run: only to see that it works"
    )
    parser.set_defaults(record=False)
    if name in {"arm64", "bench", "server"}:
        parser.add_argument("--record", action="store_true", help="for the pages, in docs/")
    parser.add_argument("--rounds", type=whole(1, 1000), default=3, help="default: %(default)s")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "bench")
    for option, settings in getattr(_SUBJECTS[name], "OPTIONS", {}).items():
        parser.add_argument(option, **settings)
    return parser


if __name__ == "__main__":
    exit_with(main)
