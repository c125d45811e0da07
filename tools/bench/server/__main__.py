"""The command `scripts/bench server`: this server, the same without merging, and infinity."""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from model_compiler.source.find import find_source
from tools.bench.machine import cpu_name
from tools.bench.server.measure import fairness, measure
from tools.bench.server.picture import as_svg
from tools.bench.server.report import Process, Results, as_json, as_table, missed
from tools.bench.server.servers import Server, free_port, infinity, kit
from tools.local_endpoint.models import DEFAULT_MODEL, ROOT, artifact_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables, and save tables, JSON and picture."""
    options = _parser().parse_args(arguments)
    load_average = os.getloadavg()[0]
    servers = _servers(options)
    with ExitStack() as running:
        for server in servers:
            _note(f"starting {server.label}")
            running.enter_context(server)
        cells = measure(servers, rounds=options.rounds, seconds=options.seconds, note=_note)
        results = Results(
            cpu=cpu_name(),
            load_average=load_average,
            labels={server.name: server.label for server in servers},
            cells=cells,
            processes={server.name: Process.of(server) for server in servers},
            fairness=fairness(servers[0], seconds=2 * options.seconds),
        )
    table = as_table(results)
    options.output.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("server.md", table),
        ("server.json", as_json(results)),
        ("server.svg", as_svg(results)),
    ):
        (options.output / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{table}\nsaved: {options.output}/server.md, server.json, server.svg\n")
    for line in missed(results):
        sys.stdout.write(f"beside its target: {line}\n")
    return 0


def _servers(options: argparse.Namespace) -> list[Server]:
    artifact = artifact_of(DEFAULT_MODEL)
    found = [
        kit(artifact, port=free_port(), merged=True),
        kit(artifact, port=free_port(), merged=False),
    ]
    if options.infinity:
        folder = find_source(DEFAULT_MODEL).folder
        found.append(infinity(options.infinity, folder, port=free_port()))
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/bench server",
        description="Measure the server with all-MiniLM-L6-v2: CPU time of a request, throughput, "
        "latency, start and memory, beside the same server without merging, and beside infinity.",
    )
    parser.add_argument(
        "--infinity",
        metavar="PYTHON",
        help="an interpreter with infinity-emb[server,torch]; without it, infinity is left out",
    )
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="for each load (default: %(default)s)"
    )
    parser.add_argument("--output", type=Path, default=ROOT / ".cache" / "bench" / "results")
    return parser


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
