"""The command `scripts/bench`: measure this project and its peers in one run on one machine."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from tools.bench import batch, measure, zip_package
from tools.bench.contenders import KIT, ROOT, Contender, compile_modules, contenders
from tools.bench.families import report as family_report
from tools.bench.families.run import measure_family
from tools.bench.families.shapes import FAMILIES
from tools.bench.machine import cpu_name
from tools.bench.measure import Requests
from tools.bench.models import Models, prepare
from tools.bench.peak import int8_peak
from tools.bench.picture import bars
from tools.bench.report import Machine, Results, Row, as_json, as_table
from tools.bench.server import __main__ as server

LENGTHS = (8, 32, 128, 512, 2048)
QUICK_LENGTHS = (8, 32, 128, 512)
#: Name → what `scripts/bench NAME` runs, with the arguments after it.
_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "batch": batch.main,
    "server": server.main,
    "zip": zip_package.main,
}


def main() -> int:
    """Measure, print the table, and save table, JSON and picture."""
    if sys.argv[1:] and sys.argv[1] in _COMMANDS:
        return _COMMANDS[sys.argv[1]](sys.argv[2:])
    options = _options()
    compile_modules()
    options.output.mkdir(parents=True, exist_ok=True)
    if options.family:
        return _family(options)
    models = prepare(
        options.cache, model=options.model, quick=options.quick, peers_python=options.peers
    )
    everyone = contenders(models, options.peers)
    present = [contender for contender in everyone if not contender.absent]
    results = _measure(options, models, everyone, present)
    table, numbers = as_table(results), as_json(results)
    for name, text in (
        ("bench.md", table),
        ("bench.json", numbers),
        ("bench.svg", bars(numbers)),
    ):
        (options.output / name).write_text(text, encoding="utf-8")
    sys.stdout.write(table)
    sys.stdout.write(f"\nsaved: {options.output}/bench.md, bench.json, bench.svg\n")
    for missed in results.missed():
        sys.stdout.write(f"over its target: {missed}\n")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure Embedding Kit, the baseline, sentence-transformers, "
        "fastembed and a plain ONNX export, on a replica of EmbeddingGemma made on the spot.",
        epilog="`scripts/bench batch` measures batch jobs, `scripts/bench server` the server under "
        "load, `scripts/bench zip` the zip of a function; "
        "they have options of their own.",
    )
    parser.add_argument("--quick", action="store_true", help="a small replica, few rounds")
    parser.add_argument(
        "--model",
        type=_gemma,
        metavar="FOLDER",
        help="real weights: EmbeddingGemma or a fine-tune of it, as sentence-transformers has it",
    )
    parser.add_argument(
        "--family",
        choices=sorted(FAMILIES),
        help="a replica of this model, beside its usual deployment; needs --peers",
    )
    parser.add_argument(
        "--peers",
        metavar="PYTHON",
        help="an interpreter with torch, sentence-transformers, fastembed",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=None,
        help="rows of five starts of each contender (default 3; quick 1)",
    )
    parser.add_argument(
        "--seconds", type=float, default=None, help="for each length (default 12; quick 1)"
    )
    parser.add_argument(
        "--no-cold",
        action="store_true",
        help="do not drop the machine's page cache, which slows down what else runs on it",
    )
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "bench")
    parser.add_argument("--output", type=Path, default=ROOT / ".cache" / "bench" / "results")
    options = parser.parse_args()
    if options.family and not options.peers:
        parser.error("--family needs --peers: the interpreter that makes the replica with torch")
    options.no_cold |= options.quick
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.seconds = options.seconds or (1 if options.quick else 12)
    return options


def _family(options: argparse.Namespace) -> int:
    """Measure one family, print the table, and save it with its JSON."""
    results = measure_family(
        options.family,
        cache=options.cache / "families",
        peers_python=options.peers,
        count=3 * options.rounds,
        runs=3 if options.quick else 15,
    )
    table = family_report.as_table(results)
    path = options.output / f"{options.family}.json"
    path.write_text(family_report.as_json(results), encoding="utf-8")
    path.with_suffix(".md").write_text(table, encoding="utf-8")
    sys.stdout.write(f"{table}\nsaved: {path}, {path.stem}.md\n")
    return 0


def _gemma(argument: str) -> Path:
    """Return the model's folder if this benchmark's export and texts support the model."""
    folder = Path(argument)
    try:
        family = json.loads((folder / "config.json").read_text("utf-8"))["model_type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise argparse.ArgumentTypeError(
            f"{folder} is not a model's folder: config.json cannot be read, or has no model_type"
        ) from error
    if family != "gemma3_text":
        raise argparse.ArgumentTypeError(
            f"{folder} is of the family {family}; EmbeddingGemma's, gemma3_text, is measured here"
        )
    return folder


def _measure(
    options: argparse.Namespace,
    models: Models,
    everyone: Sequence[Contender],
    present: Sequence[Contender],
) -> Results:
    load = os.getloadavg()[0]
    peak = int8_peak()
    requests = Requests(models.source / "tokenizer.json")
    notes: list[str] = []
    memory = requests.batch([measure.MEMORY_TOKENS])
    warm = measure.starts(present, memory, rounds=options.rounds, cold=False)
    rows = [
        Row("init", "ms of CPU time", _column(warm, "cpu", 1000)),
        Row("init, elapsed", "ms", _column(warm, "wall", 1000)),
        Row("peak memory", "MB", _column(warm, "peak")),
        Row("peak memory of the start", "MB", _column(warm, "start_peak")),
    ]
    if options.no_cold or not os.access(measure.DROP_CACHES, os.W_OK):
        why = "not asked for" if options.no_cold else "dropping the page cache needs root"
        notes.append(f"init with the page cache dropped: not measured ({why})")
    else:
        cold = measure.starts(present, memory, rounds=max(1, options.rounds // 2), cold=True)
        rows.insert(2, Row("init, page cache dropped", "ms", _column(cold, "wall", 1000)))
    lengths = QUICK_LENGTHS if options.quick else LENGTHS
    times = measure.latency(present, requests, lengths, seconds=options.seconds)
    rows += [
        Row(f"{length} tokens", "ms of CPU time", _scaled(found, 1000))
        for length, found in times.items()
    ]
    found = measure.batches(present, requests, rounds=1 if options.quick else 3)
    rows += [
        Row(f"{name}, each", "ms of CPU time", _scaled(row, 1000)) for name, row in found.items()
    ]
    notes += [_rate_note(models, times[128][KIT], peak), _endpoint_note(models, requests)]
    notes += _http_notes()
    return Results(
        model=_name(options, models),
        exported_by=models.exported_by,
        machine=Machine(cpu_name(), os.cpu_count() or 1, load, version("onnxruntime"), peak),
        labels={contender.kind: contender.label for contender in everyone},
        absent={contender.label: contender.absent for contender in everyone if contender.absent},
        rows=rows,
        notes=notes,
        full_size=options.model is None and not options.quick,
    )


def _name(options: argparse.Namespace, models: Models) -> str:
    if options.model:
        return models.source.name
    return f"replica of EmbeddingGemma ({'small' if options.quick else 'full size'})"


def _column(found: dict[str, dict[str, float]], key: str, factor: float = 1.0) -> dict[str, float]:
    return {kind: row[key] * factor for kind, row in found.items()}


def _scaled(row: dict[str, float], factor: float) -> dict[str, float]:
    return {kind: value * factor for kind, value in row.items()}


def _rate_note(models: Models, seconds: float, peak: float | None) -> str:
    """Return the rate of int8 multiply-adds at 128 tokens, beside the core's peak if known."""
    config = json.loads((models.source / "config.json").read_text("utf-8"))
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    heads, size = config["num_attention_heads"], config["head_dim"]
    layer = hidden * size * (2 * heads + 2) + 3 * hidden * wide
    rate = 128 * layer * config["num_hidden_layers"] / seconds
    if peak is None:
        return f"int8 multiply-adds at 128 tokens: {rate / 1e9:.0f} G/s (no C compiler: no peak)"
    return (
        f"int8 multiply-adds at 128 tokens: {rate / 1e9:.0f} G/s, {rate / peak:.2f} of the "
        f"core's peak of {peak / 1e9:.0f} G/s (at full size, target: 0.50)"
    )


def _endpoint_note(models: Models, requests: Requests) -> str:
    texts = [requests.text(32, seed)[0] for seed in range(60)]
    command = [sys.executable, "-m", "tools.bench.endpoint", str(models.artifact), *texts]
    answer = subprocess.run(  # noqa: S603 - our own program
        command, capture_output=True, text=True, check=True, cwd=ROOT
    )
    found = json.loads(answer.stdout.splitlines()[-1])
    return (
        f"endpoint: all of a 32-token request but the ONNX run takes "
        f"{found['overhead'] * 1000:.2f} ms at the median (target: 2 ms)"
    )


def _http_notes() -> list[str]:
    """Return the report of the HTTP layer's benchmark."""
    command = [sys.executable, "-m", "tools.bench.http_layer"]
    answer = subprocess.run(  # noqa: S603 - our own program
        command, capture_output=True, text=True, check=True, cwd=ROOT
    )
    return [f"HTTP layer: {' '.join(line.split())}" for line in answer.stdout.splitlines()]


if __name__ == "__main__":
    sys.exit(main())
