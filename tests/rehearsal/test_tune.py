"""`scripts/tune` against the emulated AWS, whose functions answer with the real embedder."""

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.session import Session

from deploy_rehearsal.emulator import Credentials, Emulator
from deploy_rehearsal.function import FunctionServer, Invocation
from embedder.artifact import Artifact
from embedder.function_url import request_from_event, response_to_event
from embedder.service import Service, build_service
from embedder.settings import Settings
from local_function_url.runtime import FunctionError
from tuning.__main__ import main
from tuning.throwaway import TAG

from .conftest import echo

STACK, LIVE, TUNE = "EmbeddingKit-tuned-Endpoint", "tuned-live", "EmbeddingKit-tuned-Tune"
ARGUMENTS = ["tuned", "--tokens", "16,64", "--starts", "1", "--requests", "1"]
VARIABLES = {"EMBEDDING_ENVIRONMENT": "tuned", "EMBEDDING_METRICS_NAMESPACE": "EmbeddingKit/tuned"}
MODEL = '[model]\nname = "sentence-transformers/all-MiniLM-L6-v2"\n'
TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"},
    ],
}
PROGRAM = """
import sys
from pathlib import Path
from tuning.__main__ import main
sys.exit(main(sys.argv[2:], environments=Path(sys.argv[1]), poll=0.1))
"""


class Embedders:
    """Answers as the deployed function would, with its variables.

    Attributes:
        aws: The emulated AWS.
        before: Is called with each request's path before it is answered.
        variables: The variables of each function that answered.
    """

    def __init__(self, aws: Emulator, artifact: Artifact) -> None:
        self.aws, self._artifact = aws, artifact
        self._services: dict[str, Service] = {}
        self.before: Callable[[str], object] = str
        self.variables: list[dict[str, str]] = []

    def answer(self, invocation: Invocation) -> bytes:
        """Answer an event; a batch of vectors is really computed."""
        event = json.loads(invocation.event)
        self.before(event["rawPath"])
        found = self.aws.client("lambda").get_function(FunctionName=invocation.function)
        variables = found["Configuration"]["Environment"]["Variables"]
        self.variables.append(variables)
        response = self._service(variables).handle(request_from_event(event))
        return json.dumps(response_to_event(response)).encode()

    def _service(self, variables: dict[str, str]) -> Service:
        key = json.dumps(variables)
        if key not in self._services:
            environ = {**variables, "EMBEDDING_ARTIFACT": str(self._artifact.folder)}
            self._services[key] = build_service(Settings.from_env(environ))
            self._services[key].telemetry = None
        return self._services[key]


@pytest.fixture(scope="module")
def live(aws: Emulator) -> Iterator[dict[str, Any]]:
    """Deploy the endpoint's stack: a function, its version and its alias."""
    cloudformation = aws.client("cloudformation")
    cloudformation.create_stack(
        StackName=STACK,
        Capabilities=["CAPABILITY_IAM"],
        TemplateBody=json.dumps({"Resources": _resources(aws), "Outputs": _OUTPUTS}),
    )
    wait = {"Delay": 1, "MaxAttempts": 20}
    cloudformation.get_waiter("stack_create_complete").wait(StackName=STACK, WaiterConfig=wait)
    yield aws.client("lambda").get_function(FunctionName=LIVE, Qualifier="live")
    cloudformation.delete_stack(StackName=STACK)
    cloudformation.get_waiter("stack_delete_complete").wait(StackName=STACK, WaiterConfig=wait)


_OUTPUTS = {"AliasArn": {"Value": {"Ref": "Alias"}}}


def _resources(aws: Emulator) -> dict[str, Any]:
    image = f"{aws.account}.dkr.ecr.{aws.region}.amazonaws.com/embedding-kit-tuned:1"

    def typed(kind: str, **properties: Any) -> dict[str, Any]:
        return {"Type": f"AWS::{kind}", "Properties": properties}

    return {
        "Role": typed("IAM::Role", AssumeRolePolicyDocument=TRUST),
        "Function": typed(
            "Lambda::Function",
            FunctionName=LIVE,
            PackageType="Image",
            Code={"ImageUri": image},
            Role={"Fn::GetAtt": ["Role", "Arn"]},
            Architectures=["arm64"],
            MemorySize=3538,
            Timeout=30,
            EphemeralStorage={"Size": 512},
            Environment={"Variables": VARIABLES},
        ),
        "Version": typed("Lambda::Version", FunctionName={"Ref": "Function"}),
        "Alias": typed(
            "Lambda::Alias",
            FunctionName={"Ref": "Function"},
            Name="live",
            FunctionVersion={"Fn::GetAtt": ["Version", "Version"]},
        ),
    }


@pytest.fixture
def embedders(
    aws: Emulator,
    live: dict[str, Any],
    function: FunctionServer,
    minilm_artifact: Artifact,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Embedders]:
    """Let the embedder answer, and let the command find the emulated AWS."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in aws.variables().items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    made = Embedders(aws, minilm_artifact)
    function.serve(made.answer)
    yield made
    function.serve(echo)
    assert not exists(aws), "each run deletes its function"


@pytest.fixture
def environments(tmp_path: Path) -> Path:
    """Return a folder with the environment's file."""
    (tmp_path / "tuned.toml").write_text(MODEL)
    return tmp_path


def exists(aws: Emulator) -> bool:
    """Return whether the throw-away function exists."""
    try:
        aws.client("lambda").get_function(FunctionName=TUNE)
    except ClientError:
        return False
    return True


def tune(environments: Path, *more: str, session: Session | None = None) -> int:
    return main([*ARGUMENTS, *more], environments=environments, session=session, poll=0.1)


def leave(aws: Emulator, live: dict[str, Any], **more: Any) -> None:
    """Create a function with the name of the throw-away function."""
    aws.client("lambda").create_function(
        FunctionName=TUNE,
        PackageType="Image",
        Code={"ImageUri": live["Code"]["ImageUri"]},
        Role=live["Configuration"]["Role"],
        **more,
    )


@pytest.fixture
def tuner(aws: Emulator, live: dict[str, Any], root: Path) -> Credentials:
    """Assume a role with the policy that docs/cost.md says is enough."""
    page = (root / "docs" / "cost.md").read_text("utf-8")
    policy = page.partition("<!-- tune-policy -->\n```json\n")[2].partition("```")[0]
    for name, value in {
        '"ROLE"': json.dumps(live["Configuration"]["Role"]),
        "REGION": aws.region,
        "ACCOUNT": aws.account,
        "NAME": "tuned",
        "FUNCTION": LIVE,
    }.items():
        policy = policy.replace(name, value)
    iam = aws.client("iam")
    iam.create_role(RoleName="tuner", AssumeRolePolicyDocument=json.dumps(TRUST))
    iam.put_role_policy(RoleName="tuner", PolicyName="may", PolicyDocument=policy)
    return aws.assume(f"arn:aws:iam::{aws.account}:role/tuner")


def test_three_sizes_are_measured(embedders, environments, live, tuner, capsys):
    """With the documented policy. Each size has its threads; the serving function is as before."""
    session = Session()
    session.set_credentials(tuner.key, tuner.secret, tuner.token)
    assert tune(environments, "--json", session=session) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    sizes = result["sizes"]
    assert [(size["memory_mb"], size["threads"]) for size in sizes] == [
        (1769, 1),
        (2048, 1),
        (3538, 2),
    ]
    assert [length["tokens"] for length in result["lengths"]] == [16, 64]
    for size in sizes:
        assert size["init_ms"] > 0
        assert [length["samples"] for length in size["lengths"]] == [1, 1]
        assert all(length["usd_per_million"] > 0.2 for length in size["lengths"])
        assert size["vectors"]["cosine"] > 0.999
    used = {(v["EMBEDDING_THREADS"], v["EMBEDDING_CACHE_ENTRIES"]) for v in embedders.variables}
    assert used == {("1", "0"), ("2", "0")}
    assert "tuned: " + live["Code"]["ResolvedImageUri"] in captured.err
    assert re.search(r"3 sizes on .* about \$0\.00 and \d+ minutes", captured.err)
    aws = embedders.aws
    now = aws.client("lambda").get_function(FunctionName=LIVE, Qualifier="live")
    assert (now["Configuration"], now["Tags"]) == (live["Configuration"], live["Tags"])
    with pytest.raises(ClientError, match="AccessDenied"):
        aws.client("lambda", tuner).update_function_configuration(FunctionName=LIVE, Timeout=3)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_deletes_the_function(embedders, environments, aws, how):
    """After Ctrl-C and after a plain kill, while a request is under way."""
    process = _hanging(embedders, environments)
    assert exists(aws)
    process.send_signal(how)
    embedders.before = str
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert errors.endswith("stopped; no temporary function is left\n")
    assert not exists(aws)


@pytest.mark.slow
def test_the_next_run_deletes_what_a_killed_one_has_left(embedders, environments, aws, capsys):
    """And measures as usual."""
    process = _hanging(embedders, environments)
    process.kill()
    process.communicate()
    embedders.before = str
    assert exists(aws)
    assert tune(environments) == 0
    captured = capsys.readouterr()
    assert f"deleted {TUNE}, which an earlier run has left" in captured.err
    assert "recommended: memory_mb = " in captured.out


def _hanging(embedders: Embedders, environments: Path) -> "subprocess.Popen[str]":
    """Start a run, and wait until it waits for the answer to its second request."""
    asked, seen = threading.Event(), []

    def hang(path: str) -> None:
        seen.append(path)
        if len(seen) == 2:
            asked.set()
            threading.Event().wait(2)

    embedders.before = hang
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(environments), *ARGUMENTS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert asked.wait(60)
    return process


def test_a_failing_function_is_reported_and_deleted(embedders, environments, capsys):
    """The error says what failed."""

    def fail(path: str) -> None:
        if path == "/v1/embeddings":
            raise FunctionError('{"errorMessage": "no memory", "errorType": "MemoryError"}')

    embedders.before = fail
    assert tune(environments) == 1
    assert (
        "error: the function failed on /v1/embeddings: MemoryError: no memory"
        in capsys.readouterr().err
    )


def test_the_next_run_deletes_a_leftover(embedders, environments, aws, live, capsys):
    """Before it creates its own function, which is deleted too when a length is refused."""
    leave(aws, live, Tags={TAG: "tuned"})
    assert tune(environments, "--tokens", "600") == 1
    assert [line for line in capsys.readouterr().err.splitlines() if TUNE in line][-1] == (
        f"deleted {TUNE}, which an earlier run has left"
    )


def test_a_text_over_the_limit_is_refused(embedders, environments, capsys):
    """With the limit of the deployed model."""
    assert tune(environments, "--tokens", "600") == 1
    message = "error: found: a text of 600 tokens; allowed: up to 256, by the model"
    assert message in capsys.readouterr().err


def test_a_function_of_another_owner_is_left_alone(embedders, environments, aws, live, capsys):
    """A function with the name and without the tag is not deleted."""
    leave(aws, live)
    assert tune(environments) == 1
    assert exists(aws)
    assert f"(it has no tag {TAG}" in capsys.readouterr().err
    aws.client("lambda").delete_function(FunctionName=TUNE)


def test_an_environment_that_is_not_deployed_is_refused(embedders, environments, capsys):
    """Before anything is created."""
    (environments / "other.toml").write_text(MODEL)
    assert main(["other", "--tokens", "16"], environments=environments) == 1
    assert capsys.readouterr().err == ("error: other is not deployed: scripts/deploy other\n")
