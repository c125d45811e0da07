"""The image of the server: its layers, and a server that runs in it as in a task.

It runs with the command and the variables of the task's definition, confined like Lambda, and
without a network: its clients run in the container. Its vectors are compared with those of the
image's own artifact on this machine.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aws_cdk import App, Stack

from embedder.server.settings import PREFIX
from embedding_kit.environment_file import load_environment
from embedding_kit.fargate_service import EmbeddingService
from embedding_kit.settings import ServerSettings
from tools.rehearsal.image.answer_checks import compare
from tools.rehearsal.image.asset import image_assets
from tools.rehearsal.image.image_under_test import ImageUnderTest, first_few, precision_of
from tools.rehearsal.image.runtime import running
from tools.rehearsal.image.target_image import TargetImage
from tools.rehearsal.image.vectors import TEXTS

__all__ = ["server_image"]

_BY = "a client in the container"
_KEY, _OTHER_KEY = "the key of the rehearsal", "a key that is in no line"
_LINE = f"rehearsal:{hashlib.sha256(_KEY.encode()).hexdigest()}\n"
_KEYS_FILE = "/keys"
#: Answers are checked for correctness, not for speed: an emulated processor is slow, so that the
#: limits of a request and of the end are those of a day.
_PATIENT = {
    f"{PREFIX}{name}": "86400" for name in ("HEADER_TIMEOUT", "BODY_TIMEOUT", "TIMEOUT", "DRAIN")
}


def server_image(root: Path, environment: str, output: Path) -> TargetImage:
    """Synthesize an environment's server, and return its image.

    An environment without `[server]` gets a network of any name, on which the image does not
    depend.
    """
    settings = load_environment(environment, folder=root / "environments")
    app = App(outdir=str(output), analytics_reporting=False)
    stack = Stack(app, "Server")
    network = ServerSettings(
        vpc="vpc-00000000",
        subnets=("subnet-00000001", "subnet-00000002"),
        clients=("10.0.0.0/16",),
        no_keys=True,
    )
    EmbeddingService(
        stack,
        "Server",
        model=settings.model,
        settings=settings.server or network,
        name=environment,
    )
    resources = app.synth().get_stack_by_name("Server").template["Resources"].values()
    (task,) = (item for item in resources if item["Type"] == "AWS::ECS::TaskDefinition")
    (definition,) = task["Properties"]["ContainerDefinitions"]
    (asset,) = image_assets(output)
    variables = {item["Name"]: item["Value"] for item in definition["Environment"]}
    # The checks bring keys of their own.
    variables.pop(f"{PREFIX}NO_KEYS", None)
    command = (*definition["EntryPoint"], *definition["Command"])

    def check(tested: ImageUnderTest) -> None:
        _check_server(tested, command, variables)

    return TargetImage(
        name="server image",
        asset=asset,
        # The function's handler, with which the vectors are compared, refuses the server's.
        variables={name: value for name, value in variables.items() if not name.startswith(PREFIX)},
        imports="embedder.server.serve, embedder.server.keys, embedder.server.metrics, "
        "embedder.server.traces",
        layers=("dependencies", "model", "code", "dependencies", "code"),
        own_layers=[3, 4],
        command=("embedder.aws_lambda.handler.handler",),
        most_bytes=110_000_000,
        check=check,
    )


def _check_server(
    tested: ImageUnderTest, command: tuple[str, ...], variables: Mapping[str, str]
) -> None:
    """Start it with a file of keys; send requests; end it within one.

    `scripts/rehearse` starts it with keys in the variable.
    """
    report, name = tested.report, tested.name
    keys = tested.folder / "keys"
    keys.write_text(_LINE)
    keys.chmod(0o644)
    command = (*command, "--keys-file", _KEYS_FILE)
    asked = [
        _request("GET", "/ready"),
        _request("POST", "/", {"text": TEXTS[0]}, key=None),
        _request("POST", "/", {"text": TEXTS[0]}, key=_OTHER_KEY),
        *(_request("POST", "/", {"text": text}) for text in TEXTS),
        _request("GET", "/metrics", key=None),
    ]
    with (
        report.step(f"starting {' '.join(command)}, sending requests, and ending it"),
        running(
            tested.docker,
            tested.asset.tag,
            environment={**variables, **_PATIENT},
            mounts={keys: _KEYS_FILE},
            command=command,
        ) as container,
    ):
        ready, keyless, refused, *answers, metrics = container.ask(_ASK, asked)
        (ended,) = container.ask(_END, [_request("POST", "/", {"text": TEXTS[0]})])
        status = tested.docker.run("wait", container.name).strip()
        log = container.logs()
    found = [ready["statusCode"], keyless["statusCode"], refused["statusCode"]]
    report.check(
        name,
        "GET /ready answers 200, and a request without a key or with an unknown one 401",
        found == [200, 401, 401],
        by=_BY,
        found=found,
    )
    compare(
        tested,
        answers,
        {},
        precision_of(tested),
        texts=TEXTS,
        artifact="the server with the image's own artifact",
    )
    counted = [
        line.rpartition(" ")[2]
        for line in metrics["body"].splitlines()
        if line.startswith('te_request_success{method="single"}')
    ]
    report.check(
        name,
        f"GET /metrics counts the {len(TEXTS)} answers",
        [float(number) for number in counted] == [len(TEXTS)],
        by=_BY,
        found=", ".join(counted),
    )
    report.check(
        name,
        "after SIGTERM /ready answers 503, and a request that was under way 200",
        ended == {"ready": 503, "answer": 200},
        by=_BY,
        found=ended,
    )
    report.check(name, "then it exits with 0", status == "0", by="docker wait", found=status)
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    statuses = sorted(line["status"] for line in lines)
    leaked = [text for text in (*TEXTS, _KEY) if len(text) > 8 and text[:30] in log]
    report.check(
        name,
        "its log has a line for each request, and no text and no key",
        statuses == [200] * (len(TEXTS) + 1) + [401] * 2 and not leaked,
        by="docker logs",
        found=first_few(leaked) or f"{len(lines)} lines",
    )


def _request(
    method: str, path: str, body: Mapping[str, Any] | None = None, *, key: str | None = _KEY
) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return {
        "method": method,
        "path": path,
        "headers": headers,
        "body": None if body is None else json.dumps(body),
    }


# These run in the container: the standard library only. There is no timeout, as for Lambda's
# emulator; the container of a server that does not start is gone, and its clients with it.
_CLIENT = """
import http.client, json, os, signal, sys, time
def connection():
    while True:
        made = http.client.HTTPConnection("127.0.0.1", 8080)
        try:
            made.connect()
            return made
        except ConnectionRefusedError:
            time.sleep(0.2)
def send(asked):
    made = connection()
    made.request(asked["method"], asked["path"], asked["body"], asked["headers"])
    answer = made.getresponse()
    return {"statusCode": answer.status, "body": answer.read().decode()}
"""
_ASK = f"""{_CLIENT}
for line in sys.stdin:
    print(json.dumps(send(json.loads(line))), flush=True)
"""
#: Sends the first byte of a body, ends the server, and sends the rest when it drains.
_END = f"""{_CLIENT}
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
while (status := send(ready)["statusCode"]) == 200:
    time.sleep(0.2)
made.send(body[1:])
print(json.dumps({{"ready": status, "answer": made.getresponse().status}}))
"""
