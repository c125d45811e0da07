"""The demo: real texts, a real model, AWS's runtime, signed requests, and the stacks.

It computes everything that it shows on this machine. The artifact and the index are stored in
.cache for the next run.
"""

import argparse
import json
import shutil
import signal
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from embedding_client import EmbeddingClient, EmbeddingClientError
from embedding_kit.programs import exit_with
from stacks.environment_file import load_environment
from tools.local_endpoint.endpoint import endpoint
from tools.local_endpoint.models import (
    DEFAULT_MODEL,
    ROOT,
    STANDARD_LIBRARY,
    ModelError,
    artifact_of,
    index_of,
)
from tools.local_endpoint.runtime import FunctionError
from tools.synthesis import Stack, synthesize

SENTENCES = (
    "The kettle is boiling.",
    "Water for the tea is hot now.",
    "The parliament voted on the new budget.",
    "Members of parliament passed next year's spending plan.",
)
QUESTIONS = (
    "parse a date out of a string",
    "run something every night in another process",
    "what is the middle value of these numbers",
)
_KINDS = {
    "AWS::ECR::Repository": "image repository",
    "AWS::Lambda::Function": "function",
    "AWS::Lambda::Alias": "alias",
    "AWS::Lambda::Url": "Function URL",
    "AWS::IAM::Role": "role",
    "AWS::Logs::MetricFilter": "metric filter",
    "AWS::CloudWatch::Alarm": "alarm",
    "AWS::CloudWatch::CompositeAlarm": "composite alarm",
    "AWS::CloudWatch::Dashboard": "dashboard",
    "AWS::CodeDeploy::DeploymentGroup": "deployment group",
    "AWS::SNS::Topic": "notification topic",
    "AWS::Budgets::Budget": "budget",
}
_AT_CTRL_C = (signal.SIGINT, signal.SIG_DFL)
_print = partial(print, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo. Return 0, or 1 after an error, which is printed."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description=(__doc__ or "").split("\n")[0]
    )
    verbose_help = "show the output of the setup and the compiler, which otherwise is in .cache"
    parser.add_argument("--verbose", action="store_true", help=verbose_help)
    verbose = parser.parse_args(arguments).verbose
    began = time.monotonic()
    # In another process, because it takes some seconds. Ctrl-C ends it without a word.
    with ProcessPoolExecutor(1, initializer=signal.signal, initargs=_AT_CTRL_C) as pool:
        synthesis = pool.submit(_synthesized)
        try:
            _heading(f"1  The model: {DEFAULT_MODEL}")
            artifact = artifact_of(DEFAULT_MODEL, verbose=verbose)
            index = index_of(STANDARD_LIBRARY, artifact, verbose=verbose)
            manifest = json.loads((artifact / "manifest.json").read_text(encoding="utf-8"))
            size = sum(entry["bytes"] for entry in manifest["files"].values())
            shown = artifact.relative_to(ROOT) if artifact.is_relative_to(ROOT) else artifact
            _print(f"compiled to {manifest['precision']}, {size / 1e6:.0f} MB: {shown}")
            _serve(artifact, index)
            _heading("4  What `scripts/deploy dev` would create in your AWS account")
            _print_stacks(synthesis)
        except (ModelError, FunctionError, EmbeddingClientError) as error:
            sys.stderr.write(f"error: {error}\n")
            return 1
        except KeyboardInterrupt:
            sys.stderr.write("\nstopped\n")
            return 130
    _print(f"\nDone in {time.monotonic() - began:.0f} s. Next: scripts/serve, or README.md.")
    return 0


def _serve(artifact: Path, index: Path) -> None:
    url, runtime = endpoint(artifact, index=index)
    with url, EmbeddingClient(url.url) as client:
        _heading("2  Signed requests to a Function URL on this machine")
        _print(f"{url.url} with IAM auth, served by {runtime.description}")
        began = time.monotonic()
        vectors = client.embed(list(SENTENCES))
        cold = time.monotonic() - began
        client.embed_one("The first request was a cold start. This one is warm.")
        warm = time.monotonic() - began - cold
        _print(
            f"cold start and {len(SENTENCES)} texts: {cold * 1000:.0f} ms; "
            f"one text when warm: {warm * 1000:.0f} ms"
        )
        _print(f"vectors {vectors.shape[0]} x {vectors.shape[1]} of {client.vector_space}")
        _print("similarity of the sentences (cosine):\n")
        for sentence, row in zip(SENTENCES, vectors @ vectors.T, strict=True):
            _print(" ".join(f"{score:5.2f}" for score in row) + f"  {sentence}")
        count = json.loads((index / "manifest.json").read_text(encoding="utf-8"))["count"]
        _heading(f"3  Python's standard library by meaning: {count} docstrings")
        for question in QUESTIONS:
            _print(f"“{question}”")
            for match in client.similar(question, num_results=4):
                _print(f"  {match.score:.3f}  {_one_line(match.text or '')}")


def _synthesized() -> list[Stack]:
    return synthesize(load_environment("dev", folder=ROOT / "environments"))


def _print_stacks(synthesis: "Future[list[Stack]]") -> None:
    """Print the resources of the stacks, each after those that it depends on."""
    try:
        stacks = synthesis.result()
    except (OSError, ValueError) as error:
        raise ModelError(f"the stacks could not be synthesized:\n{error}") from error
    for stack in stacks:
        line = f"  {stack.name}: {_resources(stack.template)}"
        _print(textwrap.fill(line, _columns(), subsequent_indent="    ", break_on_hyphens=False))


def _resources(template: Mapping[str, Any]) -> str:
    counts = Counter(resource["Type"] for resource in template["Resources"].values())
    named = [
        f"{count} {_KINDS[subject]}{'s' if count > 1 else ''}"
        for subject, count in counts.items()
        if subject in _KINDS
    ]
    other_texts = sum(count for subject, count in counts.items() if subject not in _KINDS)
    return ", ".join(named) + (f", and {other_texts} more" if other_texts else "")


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    width = _columns() - 9  # Its score is before it.
    return line if len(line) <= width else line[: width - 3] + "..."


def _columns() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def _heading(text: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    _print(f"\n{bold}{text}{plain}")


if __name__ == "__main__":
    exit_with(main)
