"""The demo: real text, a real model, AWS's own runtime, signed requests, and the stacks.

Everything that it shows was computed on this machine while it ran; the artifact and the index are
kept in .cache for the next time.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from tqdm import tqdm

from embedding_client import EmbeddingClient, EmbeddingClientError
from local_function_url.endpoint import endpoint
from local_function_url.models import (
    DEFAULT_MODEL,
    ROOT,
    STANDARD_LIBRARY,
    ModelError,
    artifact_of,
    index_of,
)
from local_function_url.runtime import FunctionError

__all__ = ["main"]

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; returns 0, or 1 after an error told on standard error."""
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description=(__doc__ or "").split("\n")[0]
    )
    told = "show what the setup and the compiler print, which otherwise goes to log files in .cache"
    parser.add_argument("--verbose", action="store_true", help=told)
    verbose = parser.parse_args(arguments).verbose
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        synthesis = _start_synthesis(Path(folder), log)
        try:
            _heading(f"1  The model: {DEFAULT_MODEL}")
            artifact = artifact_of(DEFAULT_MODEL, verbose=verbose)
            index = index_of(STANDARD_LIBRARY, artifact, verbose=verbose)
            manifest = json.loads((artifact / "manifest.json").read_text(encoding="utf-8"))
            size = sum(entry["bytes"] for entry in manifest["files"].values())
            _say(f"compiled to {manifest['precision']}, {size / 1e6:.0f} MB: {_shown(artifact)}")
            _serve(artifact, index)
            _heading("4  What `scripts/deploy dev` would create in your AWS account")
            _await_synthesis(synthesis, log)
            _tell_stacks(Path(folder))
        except (ModelError, FunctionError, EmbeddingClientError) as error:
            sys.stderr.write(f"error: {error}\n")
            return 1
        except KeyboardInterrupt:
            sys.stderr.write("\nstopped\n")
            return 130
        finally:
            if synthesis.poll() is None:
                synthesis.terminate()
                synthesis.wait()
    _say(f"\nDone in {time.monotonic() - began:.0f} s. Next: scripts/serve, or README.md.")
    return 0


def _serve(artifact: Path, index: Path) -> None:
    url, runtime = endpoint(artifact, index=index)
    with url, EmbeddingClient(url.url) as client:
        _heading("2  Signed requests to a Function URL on this machine")
        _say(f"{url.url}, IAM auth in front; behind it {runtime.description}")
        began = time.monotonic()
        vectors = client.embed(list(SENTENCES))
        cold = time.monotonic() - began
        client.embed_one("The first request started the function; this one found it warm.")
        warm = time.monotonic() - began - cold
        _say(
            f"cold start and {len(SENTENCES)} texts: {cold * 1000:.0f} ms; "
            f"one text when warm: {warm * 1000:.0f} ms"
        )
        _say(f"vectors {vectors.shape[0]} x {vectors.shape[1]} of {client.vector_space}")
        _say("how alike the sentences are (cosine):\n")
        for sentence, row in zip(SENTENCES, vectors @ vectors.T, strict=True):
            _say("  " + "  ".join(f"{score:5.2f}" for score in row) + f"   {sentence}")
        count = json.loads((index / "manifest.json").read_text(encoding="utf-8"))["count"]
        _heading(f"3  Python's standard library by meaning: {count} docstrings")
        for question in QUESTIONS:
            _say(f"“{question}”")
            for match in client.similar(question, num_results=4):
                _say(f"  {match.score:.3f}  {_one_line(match.text)}")


def _start_synthesis(folder: Path, log: Path) -> "subprocess.Popen[bytes]":
    """Begins `python app.py`, which takes some seconds, beside everything else."""
    environment = {
        **os.environ,
        "CDK_OUTDIR": str(folder),
        "CDK_CONTEXT_JSON": json.dumps({"environment": "dev"}),
    }
    with log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603  (our own program)
            [sys.executable, str(ROOT / "app.py")],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _await_synthesis(synthesis: "subprocess.Popen[bytes]", log: Path) -> None:
    shown = "synthesizing the stacks: {elapsed}"
    with tqdm(bar_format=shown, leave=False, disable=None, delay=0.3) as bar:
        while synthesis.poll() is None:
            time.sleep(0.1)
            bar.refresh()
    if synthesis.returncode != 0:
        said = log.read_text(encoding="utf-8", errors="replace")
        raise ModelError(f"the stacks could not be synthesized:\n{said}")


def _tell_stacks(folder: Path) -> None:
    for stack in _in_order(json.loads((folder / "manifest.json").read_text(encoding="utf-8"))):
        template = json.loads((folder / f"{stack}.template.json").read_text(encoding="utf-8"))
        _say(f"  {stack}: {_resources(template)}")
        for resource in template["Resources"].values():
            _tell_function(resource)


def _in_order(manifest: Mapping[str, Any]) -> list[str]:
    """The stacks, each after those that it depends on."""
    stacks = {
        name: [needed for needed in artifact.get("dependencies", []) if ".assets" not in needed]
        for name, artifact in manifest["artifacts"].items()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    return list(TopologicalSorter(stacks).static_order())


def _resources(template: Mapping[str, Any]) -> str:
    counts = Counter(resource["Type"] for resource in template["Resources"].values())
    named = [
        f"{count} {_KINDS[kind]}{'s' if count > 1 else ''}"
        for kind, count in counts.items()
        if kind in _KINDS
    ]
    others = sum(count for kind, count in counts.items() if kind not in _KINDS)
    return ", ".join(named) + (f", and {others} more" if others else "")


def _tell_function(resource: Mapping[str, Any]) -> None:
    properties = resource.get("Properties", {})
    if resource["Type"] == "AWS::Lambda::Function":
        _say(
            f"    - {properties.get('Description', 'function')}: "
            f"{'/'.join(properties['Architectures'])}, {properties['MemorySize']} MB, "
            f"at most {properties['Timeout']} s"
        )
    elif resource["Type"] == "AWS::Lambda::Url":
        _say(f"    - Function URL on the alias, auth {properties['AuthType']}")


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    width = shutil.get_terminal_size((100, 24)).columns - 10
    return line if len(line) <= width else line[: width - 3] + "..."


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def _heading(text: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    _say(f"\n{bold}{text}{plain}")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
