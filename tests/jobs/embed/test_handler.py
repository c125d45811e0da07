"""Lambda's handler of a batch, as the image runs it."""

from tests.jobs.conftest import run_as_lambda


def test_the_image_runs_a_job_with_what_lambda_sets(s3, minilm_artifact):
    """A fresh interpreter with Lambda's variables embeds a job of S3, without a progress bar."""
    s3.objects["in/a.jsonl"] = b'{"text": "one"}\n{"text": "two words"}\n'
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
        "print(json.dumps([n for n in ('boto3', 'tqdm') if n in sys.modules]))\n"
    )
    *told, imported = run_as_lambda(
        code,
        AWS_LAMBDA_FUNCTION_NAME="batch-dev",
        EMBEDDING_ARTIFACT=str(minilm_artifact.folder),
        EMBEDDING_METRICS_NAMESPACE="EmbeddingKit/dev",
    )
    assert [line["step"] for line in told if "step" in line] == ["plan", "shard", "finish"]
    (record,) = (line for line in told if "_aws" in line)
    assert (record["Rows"], record["FunctionName"]) == (2, "batch-dev")
    assert imported == []
    assert any(path.endswith("/part-000000.parquet") for path in s3.objects)
