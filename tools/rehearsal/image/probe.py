"""Runs in the image and on this machine alike: the embedder's own answers, for comparison.

It needs the embedder on `LAMBDA_TASK_ROOT` and nothing else of this project.
`probe.py tokens` reads a JSON list of texts and writes their token ids. `probe.py answers` reads a
Function URL event a line and writes the handler's answers. `probe.py libraries` does the same and
then writes a JSON list of the files that the process has mapped.
"""

import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Read the standard input and print the answers."""
    sys.path.insert(0, os.environ["LAMBDA_TASK_ROOT"])
    {"tokens": _tokens, "answers": _answers, "libraries": _libraries}[sys.argv[1]]()


def _tokens() -> None:
    from embedder.core.artifact import load_artifact  # noqa: PLC0415 - known to be there only now
    from embedder.core.fast_tokenizers import load  # noqa: PLC0415
    from embedder.core.settings import Settings  # noqa: PLC0415

    artifact = load_artifact(Path(Settings.from_env(os.environ).artifact))
    tokenizer = load(artifact.manifest.tokenizer.kind, artifact.tokenizer_path)
    print(json.dumps([list(tokenizer.encode(text)) for text in json.load(sys.stdin)]))


def _answers() -> None:
    from embedder.aws_lambda.handler import handler  # noqa: PLC0415 - known to be there only now

    # The handler logs to the standard output, as Lambda expects. Keep its answers separate.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        print(json.dumps(handler(json.loads(line), None)), file=answers)
    sys.stdout = answers


def _libraries() -> None:
    _answers()
    # The last column of a line is the file, where there is one; see proc_pid_maps(5).
    lines = Path("/proc/self/maps").read_text().splitlines()
    print(json.dumps(sorted({line.split(maxsplit=5)[5] for line in lines if "/" in line})))


if __name__ == "__main__":
    main()
