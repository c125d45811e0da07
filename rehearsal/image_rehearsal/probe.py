"""Runs in the image and on this machine alike: the embedder's own answers, for comparison.

It needs the embedder on `LAMBDA_TASK_ROOT` and nothing else of this project.
`probe.py tokens` reads a JSON list of texts and writes their token ids; `probe.py answers` reads a
Function URL event a line and writes the handler's answers.
"""

import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Answer what stands on the standard input."""
    sys.path.insert(0, os.environ["LAMBDA_TASK_ROOT"])
    {"tokens": _tokens, "answers": _answers}[sys.argv[1]]()


def _tokens() -> None:
    from embedder.artifact import load_artifact  # noqa: PLC0415 - known to be there only now
    from embedder.settings import Settings  # noqa: PLC0415
    from embedder.tokenizers import load  # noqa: PLC0415

    artifact = load_artifact(Path(Settings.from_env(os.environ).artifact))
    tokenizer = load(artifact.manifest.tokenizer, artifact.folder)
    print(json.dumps([list(tokenizer.encode(text)) for text in json.load(sys.stdin)]))


def _answers() -> None:
    from embedder.handler import handler  # noqa: PLC0415 - known to be there only now

    # The handler logs on the standard output, as Lambda wants it: its answers must not mix with
    # that.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        print(json.dumps(handler(json.loads(line), None)), file=answers)


if __name__ == "__main__":
    main()
