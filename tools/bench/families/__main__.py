"""Measure the shapes of the catalog, and write `measured.json` of the compiler.

    python -m tools.bench.families --peers PYTHON [SHAPE ...]

Each shape is started and run in turns with the reference, the shape of the model in
`environments/dev.toml`, and the ratios to it are written. Shapes that are not named keep their
numbers.
"""

import argparse
import dataclasses
import json
import os
import sys
from importlib.metadata import version
from pathlib import Path

from model_compiler.source.catalog import MEASURED_FILE, Measurement, measurements
from tools.bench.contenders import KIT, ROOT, Contender, compile_modules
from tools.bench.families.folders import prepare_artifact
from tools.bench.families.run import folder_megabytes, latency, starts
from tools.bench.families.shapes import SHAPES
from tools.bench.families.texts import Texts
from tools.bench.machine import cpu_name
from tools.bench.measure import Request

#: The shape of all-MiniLM-L6-v2.
REFERENCE = "bert-6x384"
_LENGTHS = (32, 256)


def main() -> int:
    """Measure the named shapes, or all."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.families", description=__doc__)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--peers", required=True, metavar="PYTHON", help="with torch")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "bench" / "families")
    parser.add_argument("--starts", type=int, default=5, help="starts of each shape")
    parser.add_argument("--runs", type=int, default=15, help="runs of each request")
    options = parser.parse_args()
    unknown = set(options.shapes) - set(SHAPES)
    if unknown:
        parser.error(f"unknown shapes: {', '.join(sorted(unknown))}")
    compile_modules()
    for name in options.shapes or SHAPES:
        _save(name, *_measure(name, options))
        sys.stderr.write(f"{name}: written to {MEASURED_FILE}\n")
    return 0


def _measure(name: str, options: argparse.Namespace) -> tuple[dict[str, float], Measurement]:
    """Return the reference's milliseconds, and the shape's ratios to them."""
    folders = {
        shape: prepare_artifact(options.cache, shape, SHAPES[shape], options.peers)
        for shape in dict.fromkeys((REFERENCE, name))
    }
    present = {
        shape: Contender(KIT, shape, artifact, sys.executable)
        for shape, (_, artifact) in folders.items()
    }
    texts = {shape: Texts(source / "tokenizer.json") for shape, (source, _) in folders.items()}

    def requests(length: int) -> dict[str, Request]:
        return {shape: texts[shape].batch([length]) for shape in present}

    started = starts(present, requests(32), count=options.starts)
    times = {shape: {"start": row["cpu"]} for shape, row in started.items()}
    for length in _LENGTHS:
        for shape, took in latency(present, requests(length), runs=options.runs).items():
            times[shape][f"tokens_{length}"] = took
    reference = times[REFERENCE]
    ratios = {key: round(value / reference[key], 2) for key, value in times[name].items()}
    size = round(folder_megabytes(folders[name][1]), 1)
    return reference, Measurement(megabytes=size, **ratios)


def _save(name: str, reference: dict[str, float], found: Measurement) -> None:
    """Put one shape into the file; the reference's own times are those of its own run."""
    measurements.cache_clear()
    before = measurements()
    shapes = {**before.shapes, name: found}
    own = {key: round(value, 2) for key, value in reference.items()}
    value = {
        "reference": REFERENCE,
        "milliseconds": own if name == REFERENCE else dict(before.milliseconds),
        "machine": f"{cpu_name()}, {os.cpu_count()} cores, one thread, "
        f"ONNX Runtime {version('onnxruntime')}",
        "shapes": {shape: dataclasses.asdict(shapes[shape]) for shape in SHAPES if shape in shapes},
    }
    MEASURED_FILE.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
