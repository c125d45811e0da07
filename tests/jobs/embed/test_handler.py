"""Lambda's handler of a batch, as the image runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from embedder.core.artifact import Artifact

SOURCE_ROOT = Path(__file__).parents[3] / "lambda_image"


def test_the_image_runs_a_job_with_what_lambda_sets(s3, minilm_artifact: Artifact) -> None:
    """A fresh interpreter with Lambda's variables embeds a job of S3, and imports no client."""
    s3.objects["in/a.jsonl"] = b'{"text": "one"}\n{"text": "two words"}\n'
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("EMBEDDING_")},
        "AWS_LAMBDA_FUNCTION_NAME": "batch-dev",
        "EMBEDDING_ARTIFACT": str(minilm_artifact.folder),
        "EMBEDDING_METRICS_NAMESPACE": "EmbeddingKit/dev",
        "PYTHONPATH": str(SOURCE_ROOT),
    }
    code = (
        "import json, sys\n"
        "from dataclasses import asdict\n"
        "from jobs.embed.handler import handler\n"
        "job = {'source': 's3://in/', 'destination': 's3://out/'}\n"
        "plan = handler({'step': 'plan', 'job': job}, None)\n"
        "from jobs.embed.run import read_plan\n"
        "for item in read_plan(plan['folder']).shards:\n"
        "    step = {'step': 'shard', 'folder': plan['folder'], 'shard': asdict(item)}\n"
        "    handler(step, None)\n"
        "handler({'step': 'finish', 'folder': plan['folder']}, None)\n"
        "print(json.dumps([n for n in ('boto3', 'botocore', 'tqdm') if n in sys.modules]))\n"
    )
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    *told, imported = (json.loads(line) for line in finished.stdout.splitlines())
    assert [line["step"] for line in told if "step" in line] == ["plan", "shard", "finish"]
    (record,) = (line for line in told if "_aws" in line)
    assert (record["Rows"], record["FunctionName"]) == (2, "batch-dev")
    assert imported == []
    assert any(path.endswith("/part-000000.parquet") for path in s3.objects)
