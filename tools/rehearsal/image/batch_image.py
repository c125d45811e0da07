"""The image of batch jobs, and a job that runs in it as in Lambda.

S3 is a stand-in inside the container, which has no network. The vectors are compared with those of
the image's code and artifact on this machine.
"""

import base64
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet
from aws_cdk import App, Stack

from embedding_kit.batch import EmbeddingBatch
from embedding_kit.environment_file import load_environment
from embedding_kit.settings import BatchSettings
from tools.rehearsal.image.asset import image_assets
from tools.rehearsal.image.runtime import TEXTS, Tested, compare, leaked
from tools.rehearsal.image.target import Target, function_variables

_TESTS = Path(__file__).parents[3] / "tests"
#: The stand-in of S3, and the server that it is.
_S3 = ("jobs/local_s3.py", "fixtures/local_server.py")
_PORT = 9000
_FOLDERS = {"source": "s3://documents/", "destination": "s3://vectors/"}
#: The last row has no text.
_ROWS = [{"id": number, "text": text} for number, text in enumerate((*TEXTS, ""))]
# These run in the container: the standard library only.
_SERVE = f"""
import sys; sys.path.insert(0, "/s3")
import pathlib, time
from tests.jobs.local_s3 import local_s3
with local_s3({_PORT}) as s3:
    for file in pathlib.Path("/documents").iterdir():
        s3.objects[f"documents/{{file.name}}"] = file.read_bytes()
    time.sleep(10 ** 6)
"""
_WAIT = f"""
import socket, sys, time
for _ in range(600):
    if not socket.socket().connect_ex(("127.0.0.1", {_PORT})):
        sys.exit()
    time.sleep(0.2)
sys.exit("the S3 server of the tests did not start")
"""
_READ = f"""
import base64, json, re, urllib.request
S3 = "http://127.0.0.1:{_PORT}/vectors"
with urllib.request.urlopen(S3 + "?list-type=2") as answer:
    keys = re.findall("<Key>(.*?)</Key>", answer.read().decode())
def read(key):
    with urllib.request.urlopen(S3 + "/" + key) as answer:
        return base64.b64encode(answer.read()).decode()
print(json.dumps({{key: read(key) for key in keys}}))
"""


def batch_image(root: Path, environment: str, output: Path) -> Target:
    """Synthesize an environment's batch jobs, and return their image.

    An environment without `[batch]` gets buckets of any name, on which the image does not depend.
    """
    settings = load_environment(environment, folder=root / "environments")
    batch = settings.batch or BatchSettings(input="s3://documents", output="s3://vectors")
    app = App(outdir=str(output), analytics_reporting=False)
    stack = Stack(app, "Batch")
    EmbeddingBatch(stack, "Batch", model=settings.model, settings=batch, name=environment)
    resources = app.synth().get_stack_by_name("Batch").template["Resources"].values()
    (function,) = (item for item in resources if item["Type"] == "AWS::Lambda::Function")
    (asset,) = image_assets(output)
    return Target(
        name="batch",
        asset=asset,
        variables=function_variables(function["Properties"]),
        command=("jobs.embed.handler.handler",),
        most_bytes=215_000_000,
        check=_check_job,
    )


def _check_job(tested: Tested) -> None:
    """Run a job over two formats in the container, and compare its vectors."""
    source = tested.folder / "documents"
    source.mkdir()
    lines = [json.dumps(row) for row in _ROWS]
    (source / "a.jsonl").write_text("\n".join([*lines[1:], "{broken"]), encoding="utf-8")
    pyarrow.parquet.write_table(arrow.Table.from_pylist(_ROWS[:1]), source / "b.parquet")
    with tested.report.step("running a batch job in the container"):
        result, stored, log = _job(tested, source)
    counts = [result[name] for name in ("rows", "rejected")]
    check = "the job embeds each text, and rejects the row without one and the broken line"
    tested.report.check(check, counts == [len(TEXTS), 2], counts)
    parts = [data for name, data in stored.items() if name.endswith(".parquet")]
    tables = [pyarrow.parquet.read_table(io.BytesIO(part)).to_pylist() for part in parts]
    rows = sorted((row for table in tables for row in table), key=lambda row: int(row["id"]))
    compare(tested, [row["embedding"] for row in rows], {str(result["vector_space"])})
    found = leaked(log)
    tested.report.check("no text of a row is in the log", not found and bool(log), found or "")


def _job(tested: Tested, source: Path) -> tuple[dict[str, Any], dict[str, bytes], str]:
    """Return the result, the files of the output, and the log."""
    variables = {
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{_PORT}",
    }
    mounts = {_TESTS / file: f"/s3/tests/{file}" for file in _S3} | {source: "/documents"}
    job = {"id": "id", "max_rejected_percent": 50}
    with tested.running(variables=variables, mounts=mounts) as container:
        inside = [container.name, "python", "-c"]
        tested.docker.run("exec", "--detach", *inside, _SERVE)
        tested.docker.run("exec", *inside, _WAIT)

        def stored() -> dict[str, bytes]:
            found = json.loads(tested.docker.run("exec", *inside, _READ))
            return {key: base64.b64decode(data) for key, data in found.items()}

        (plan,) = container.invoke([{"step": "plan", "defaults": _FOLDERS, "job": job}])
        if "folder" not in plan:
            raise RuntimeError(f"the image does not plan: {plan}\n{container.logs()[-3000:]}")
        folder = {"folder": plan["folder"]}
        shards = [json.loads(line) for line in stored()[plan["shards_key"]].splitlines()]
        steps = [{"step": "shard", "shard": shard, **folder} for shard in shards]
        *_, result = container.invoke([*steps, {"step": "finish", **folder}])
        if "rows" not in result:
            raise RuntimeError(f"the job fails: {result}\n{container.logs()[-3000:]}")
        return result, stored(), container.logs()
