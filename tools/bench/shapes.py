"""The shapes of the catalog: writes `measured.json` of the compiler.

Each shape takes turns with the reference, the shape of the model in `environments/dev.toml`, and
the ratios to it are written. Shapes that are not named keep their numbers.
"""

import argparse
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from model_compiler.source.catalog import MEASURED_FILE, Measurement, measurements
from tools.bench.contenders import Contender, Worker, latency, starts, workers
from tools.bench.model import SizedTexts
from tools.bench.replicas import SHAPES, artifact_of, replica
from tools.bench.report import CPU, KIT, Comparison, ReportRow, this_machine

#: The shape of all-MiniLM-L6-v2.
REFERENCE = "bert-6x384"
_LENGTHS = (32, 256)
#: Texts after which the peak of the memory is read, up to the limit of the shape. A run of many
#: texts has 512 tokens, as the first of them.
_PEAK_LENGTHS = (512, 2048, 8192)


OPTIONS: Mapping[str, Any] = {
    "shapes": {"nargs": "*", "metavar": "SHAPE", "help": f"default: all of {', '.join(SHAPES)}"}
}


def measure(options: argparse.Namespace) -> Comparison:
    """Measure the named shapes, or all, and write their ratios."""
    unknown = set(options.shapes) - set(SHAPES)
    if unknown:
        raise SystemExit(f"error: unknown shapes: {', '.join(sorted(unknown))}")
    rows: list[ReportRow] = []
    for name in options.shapes or ([REFERENCE] if options.quick else list(SHAPES)):
        rows += _measure(name, options)
    labels = {REFERENCE: REFERENCE, KIT: "the shape"}
    written = "nothing written" if options.quick else f"written to {MEASURED_FILE}"
    return Comparison("shapes", labels, rows, base=REFERENCE, notes=[written])


def _measure(name: str, options: argparse.Namespace) -> list[ReportRow]:
    """Measure a shape in turns with the reference; write its ratios, megabytes and peaks."""
    present, texts = {}, {}
    for shape in dict.fromkeys((REFERENCE, name)):
        source = replica(options.cache, shape, options.peers)
        present[shape] = Contender(KIT, artifact_of(source, options.cache))
        texts[shape] = SizedTexts(source / "tokenizer.json")
    requests = {
        length: {shape: texts[shape].batch([length]) for shape in present} for length in _LENGTHS
    }
    times = {"start": starts(present, requests[32], rounds=options.rounds)["cpu"]}
    with workers(present) as running:
        for length, request in requests.items():
            taken = latency(running, request, seconds=1 if options.quick else 30)
            times[f"tokens_{length}"] = taken
    with Worker(present[name]) as worker:
        memory = {
            length: round(worker.ask(texts[name].batch([length]))["peak"])
            for length in _PEAK_LENGTHS
            if length <= SHAPES[name].max_tokens
        }
    files = (path for path in present[name].folder.rglob("*") if path.is_file())
    ratios = {key: round(taken[name] / taken[REFERENCE], 2) for key, taken in times.items()}
    megabytes = round(sum(path.stat().st_size for path in files) / 1e6, 1)
    if not options.quick:
        reference = {key: round(taken[REFERENCE], 2) for key, taken in times.items()}
        _save(name, Measurement(megabytes=megabytes, memory=memory, **ratios), reference)
    return [
        ReportRow(f"{name}: {key}", CPU, {REFERENCE: taken[REFERENCE], KIT: taken[name]})
        for key, taken in times.items()
    ]


def _save(name: str, new: Measurement, reference: dict[str, float]) -> None:
    """Put one shape into the file; the reference's own times are those of its own run."""
    measurements.cache_clear()
    before, machine = measurements(), this_machine()
    shapes = {**before.shapes, name: new}
    value = {
        "reference": REFERENCE,
        "milliseconds": reference if name == REFERENCE else dict(before.milliseconds),
        "machine": f"{machine.cpu}, {machine.cores} cores, one thread, "
        f"ONNX Runtime {machine.onnxruntime}",
        "shapes": {shape: dataclasses.asdict(shapes[shape]) for shape in SHAPES if shape in shapes},
    }
    MEASURED_FILE.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
