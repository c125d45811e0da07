"""The image of the server, and a server that runs in it as in a task.

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
from tools.rehearsal.image.asset import image_assets
from tools.rehearsal.image.runtime import TEXTS, Tested, compare, embedded, leaked
from tools.rehearsal.image.target import EMBEDDER, Target

_KEY, _OTHER_KEY = "the key of the rehearsal", "a key that is in no line"
_KEYS_FILE = "/keys"
#: Answers are checked for correctness, not for speed: an emulated processor is slow, so that the
#: limits of a request and of the end are those of a day.
_PATIENT = {
    f"{PREFIX}{name}": "86400" for name in ("HEADER_TIMEOUT", "BODY_TIMEOUT", "TIMEOUT", "DRAIN")
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
    command = (*definition["EntryPoint"], *definition["Command"], "--keys-file", _KEYS_FILE)
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
    """Start it with a file of keys; send requests; end it during one."""
    report = tested.report
    keys = tested.folder / "keys"
    keys.write_text(f"rehearsal:{hashlib.sha256(_KEY.encode()).hexdigest()}\n")
    keys.chmod(0o644)
    embed = {"method": "POST", "path": "/"}
    asked = [
        _request("GET", "/ready"),
        _request(**embed, text=TEXTS[0], key=None),
        _request(**embed, text=TEXTS[0], key=_OTHER_KEY),
        *(_request(**embed, text=text) for text in TEXTS),
    ]
    with (
        report.step(f"starting {' '.join(command)}, sending requests, and ending it"),
        tested.running(
            variables={**variables, **_PATIENT}, mounts={keys: _KEYS_FILE}, command=command
        ) as container,
    ):
        ready, keyless, refused, *answers = container.ask(_ASK, asked)
        (ended,) = container.ask(_END, [_request(**embed, text=TEXTS[0])])
        status = tested.docker.run("wait", container.name).strip()
        log = container.logs()
    first = [answer["statusCode"] for answer in (ready, keyless, refused)]
    check = "GET /ready answers 200, and a request without a key or with an unknown one 401"
    report.check(check, first == [200, 401, 401], first)
    compare(tested, *embedded(answers))
    check = "after SIGTERM it answers a request that was under way, is not ready, and exits with 0"
    holds = (ended, status) == ({"ready": 503, "answer": 200}, "0")
    report.check(check, holds, f"{ended}, status {status}")
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    statuses = sorted(line["status"] for line in lines)
    found = leaked(log, _KEY)
    check = "its log has a line for each request, and no text and no key"
    logged = statuses == [200] * (len(TEXTS) + 1) + [401] * 2
    report.check(check, logged and not found, found or f"{len(lines)} lines")


def _request(
    method: str, path: str, *, text: str | None = None, key: str | None = _KEY
) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    body = None if text is None else json.dumps({"text": text})
    return {"method": method, "path": path, "headers": headers, "body": body}
