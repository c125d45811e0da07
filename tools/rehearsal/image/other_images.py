"""The images besides the endpoint's: of the server, of batch jobs, and of three models in one.

Each runs as in AWS, confined like Lambda and without a network. Vectors are compared with those of
the image's own code and artifact on this machine.
"""

import base64
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet
from aws_cdk import App, Stack
from aws_cdk import aws_lambda as lambda_

from embedder.core.artifact import load_manifests
from embedder.server.options import PREFIX
from embedding_kit.fargate_service import EmbeddingService
from embedding_kit.jobs import EmbeddingBatch
from embedding_kit.package import image_code
from embedding_kit.programs import contract
from embedding_kit.settings import (
    BatchSettings,
    ModelSettings,
    ModelSource,
    ServerSettings,
    SparseSource,
)
from jobs.release_check.handler import Answer, ReleaseRefusedError, check_version
from stacks.environment_file import load_environment
from tests.model_compiler.goldens.reranker_models import write_reranker
from tests.model_compiler.goldens.sparse_models import write_sparse
from tools.rehearsal.image.asset import image_assets
from tools.rehearsal.image.target import (
    CLIENT,
    EMBEDDER,
    TEXTS,
    Target,
    Tested,
    body_of,
    compare,
    embedded,
    event,
    function_variables,
    leaked,
)

_KEY, _OTHER_KEY = "the key of the rehearsal", "a key that is in no line"
#: Answers are checked for correctness, not for speed: an emulated processor is slow, so that the
#: limits of a request and of the end are those of a day.
_PATIENT = {f"{PREFIX}{name}": "86400" for name in ("TIMEOUT", "DRAIN")}
#: Sends the first byte of a body, ends the server, and sends the rest when it accepts no more.
_END = f"""{CLIENT}
import contextlib
asked = json.loads(sys.stdin.readline())
body = asked["body"].encode()
made = connection()
made.putrequest(asked["method"], asked["path"])
for name, value in {{**asked["headers"], "content-length": str(len(body))}}.items():
    made.putheader(name, value)
made.endheaders(body[:1])
ready = {{"method": "GET", "path": "/ready", "body": None, "headers": {{}}}}
assert send(ready)["statusCode"] == 200
os.kill(1, signal.SIGTERM)
with contextlib.suppress(ConnectionRefusedError):
    while True:
        http.client.HTTPConnection("127.0.0.1", 8080).connect()
        time.sleep(0.2)
made.send(body[1:])
print(json.dumps(made.getresponse().status))
"""


def server_image(root: Path, environment: str, output: Path) -> Target:
    """Synthesize an environment's server, and return its image.

    An environment without `[server]` gets any network: the image does not depend on it.
    """
    settings = load_environment(environment, folder=root / "environments")
    server = settings.server or ServerSettings(
        vpc="vpc-00000000",
        subnets=("subnet-00000001", "subnet-00000002"),
        clients=("10.0.0.0/16",),
        no_keys=True,
    )
    app = App(outdir=str(output), analytics_reporting=False)
    stack = Stack(app, "Server")
    EmbeddingService(stack, "Server", model=settings.model, settings=server, name=environment)
    resources = app.synth().get_stack_by_name("Server").template["Resources"].values()
    (task,) = (item for item in resources if item["Type"] == "AWS::ECS::TaskDefinition")
    (definition,) = task["Properties"]["ContainerDefinitions"]
    (asset,) = image_assets(output)
    variables = {item["Name"]: item["Value"] for item in definition["Environment"]}
    # The checks bring keys.
    variables.pop(f"{PREFIX}NO_KEYS", None)
    command = (*definition["EntryPoint"], *definition["Command"])
    return Target(
        name="server",
        asset=asset,
        # The function's handler, with which the vectors are compared, refuses the server's.
        variables={name: value for name, value in variables.items() if not name.startswith(PREFIX)},
        command=(EMBEDDER,),
        most_bytes=110_000_000,
        check=lambda tested: _check_server(tested, command, variables),
    )


def _check_server(tested: Tested, command: tuple[str, ...], variables: Mapping[str, str]) -> None:
    """Start it as its task does, with a key; send requests; end it during one."""
    report = tested.report
    keys = {f"{PREFIX}KEYS": f"rehearsal:{hashlib.sha256(_KEY.encode()).hexdigest()}"}
    embed = {"method": "POST", "path": "/"}
    requests = [
        _request("GET", "/ready"),
        _request(**embed, text=TEXTS[0], key=None),
        _request(**embed, text=TEXTS[0], key=_OTHER_KEY),
        *(_request(**embed, text=text) for text in TEXTS),
    ]
    with (
        report.step(f"starting {' '.join(command)}, sending requests, and ending it"),
        tested.running(variables={**variables, **_PATIENT, **keys}, command=command) as container,
    ):
        ready, keyless, refused, *answers = container.ask(requests)
        (ended,) = container.ask([_request(**embed, text=TEXTS[0])], _END)
        status = tested.docker.run("wait", container.name).strip()
        log = container.logs()
    first_statuses = [answer["statusCode"] for answer in (ready, keyless, refused)]
    check = "GET /ready answers 200, and a request without a key or with an unknown one 401"
    report.check(check, first_statuses == [200, 401, 401], first_statuses)
    compare(tested, *embedded(answers))
    check = "after SIGTERM it answers only a request that was under way, and exits with 0"
    holds = (ended, status) == (200, "0")
    report.check(check, holds, f"{ended}, status {status}")
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    statuses = sorted(line["status"] for line in lines)
    leaks = leaked(log, _KEY)
    check = "its log has a line for each request, and no text and no key"
    logged = statuses == [200] * (len(TEXTS) + 1) + [401] * 2
    report.check(check, logged and not leaks, leaks or f"{len(lines)} lines")


def _request(
    method: str, path: str, *, text: str | None = None, key: str | None = _KEY
) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    body = None if text is None else json.dumps({"text": text})
    return {"method": method, "path": path, "headers": headers, "body": body}


_TESTS = Path(__file__).parents[3] / "tests"
#: The stand-in of S3 inside the container, and the server that it is.
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
        command=(contract().handlers["embed"],),
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
    files = [data for name, data in stored.items() if name.endswith(".parquet")]
    tables = [pyarrow.parquet.read_table(io.BytesIO(file)).to_pylist() for file in files]
    rows = sorted((row for table in tables for row in table), key=lambda row: int(row["id"]))
    compare(tested, [row["embedding"] for row in rows], {str(result["vector_space"])})
    leaks = leaked(log)
    tested.report.check("no text of a row is in the log", not leaks and bool(log), leaks or "")


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
            result = json.loads(tested.docker.run("exec", *inside, _READ))
            return {key: base64.b64decode(data) for key, data in result.items()}

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


_ENTRIES = ["Water boils at 100 degrees.", "A violin has four strings.", "hello world"]


def together_image(output: Path, *, endpoint: Target) -> Target:
    """Synthesize a function of three models with an endpoint's variables; return its image.

    A small random reranker and sparse encoder go with an embedding model of the catalog and an
    index of a few texts.
    """
    texts = output / "texts" / "texts.json"
    texts.parent.mkdir(parents=True)
    texts.write_text(json.dumps(_ENTRIES), encoding="utf-8")
    # In int8, random weights of 32 channels are no model to be faithful to.
    reranker = ModelSource(folder=write_reranker(output / "small-reranker"), precision="fp32")
    sparse = SparseSource(folder=write_sparse(output / "small-sparse"), precision="fp32")
    name = "sentence-transformers/all-MiniLM-L6-v2"
    model = ModelSettings(name=name, index=texts, reranker=reranker, sparse=sparse)
    app = App(outdir=str(output / "cdk.out"), analytics_reporting=False)
    lambda_.DockerImageFunction(Stack(app, "Together"), "Function", code=image_code(model))
    app.synth()
    (asset,) = image_assets(output / "cdk.out")
    return replace(endpoint, name="together", asset=asset, check=_check_together)


def _check_together(tested: Tested) -> None:
    """Run the release check on this machine, and send a request of each kind."""
    requests = [
        event("POST", "/search", {"query": "How many strings has a violin?", "top_k": 2}),
        event("POST", "/rerank", {"query": "hello", "texts": ["hello world", "the date"]}),
        event("POST", "/embed_sparse", {"inputs": "hello world"}),
    ]
    report = tested.report
    manifests = load_manifests(tested.task / "artifact").values()
    with (
        report.step("starting three models in the emulator, and sending requests"),
        tested.running() as container,
    ):

        def new(method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
            (answer,) = container.invoke([event(method, path, body)])
            return Answer(answer["statusCode"], body_of(answer))

        try:
            space, refused = check_version(new, *manifests, starts=1), ""
        except ReleaseRefusedError as error:
            space, refused = "", str(error)
        answers = container.invoke(requests)
    check = "the release check takes the three models"
    report.check(check, space.count(" + ") == 2, refused or space)
    statuses = [answer.get("statusCode") for answer in answers]
    check = "POST /search, /rerank and /embed_sparse answer 200"
    report.check(check, statuses == [200] * 3, statuses if statuses == [200] * 3 else answers)
    searched = body_of(answers[0]) if statuses[0] == 200 else {}
    scores = [set(result["scores"]) for result in searched.get("results", [])]
    check = "a search asks both indexes and the reranker"
    report.check(check, scores == [{"dense", "sparse", "fused", "rerank"}] * 2, scores)
