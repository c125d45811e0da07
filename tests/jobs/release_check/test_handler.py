"""The check of a new version before the alias moves to it."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError, WaiterError

import jobs.release_check.handler as release_check
from embedder.application import build_router
from embedder.aws_lambda.function_url import request_from_event, response_to_event
from embedder.core.artifact import Golden
from embedder.core.s3_vectors import SPACE_TAG
from embedder.core.settings import EmbedderSettings
from embedder.http.router import Router
from jobs.release_check.handler import (
    MAX_REASON,
    Answer,
    ReleaseRefusedError,
    check_version,
    handler,
)
from tests.fixtures.s3_vectors.server import CREDENTIALS, local_s3_vectors
from tests.jobs.release_check.conftest import version_of

OTHER_SPACE = "other@1/int8/abc/384"
STACK = "arn:aws:cloudformation:eu-central-1:123456789012:stack/EmbeddingKit-dev-Endpoint/1"


@pytest.fixture(scope="module")
def router(minilm_artifact) -> Router:
    return build_router(EmbedderSettings(artifact=minilm_artifact.folder))


@pytest.fixture(scope="module")
def serving(router):
    return version_of(router)


@pytest.fixture(scope="module")
def manifest(minilm_artifact, serving):
    """Return the artifact's manifest with one golden vector."""
    head = tuple(serving("POST", "/", {"text": "a golden text"}).body["embedding"][:5])
    golden = Golden(text="a golden text", prompt=None, embedding_head=head)
    return minilm_artifact.manifest._replace(golden=(golden,))


@pytest.fixture(scope="module")
def space(manifest) -> str:
    return str(manifest.vector_space_of(dimensions=384))


@pytest.mark.parametrize("starts", [1, 3])
def test_a_new_version_is_warmed_before_it_is_checked(serving, manifest, space, starts):
    """As many environments as there is room for are started before the vectors are compared."""
    asked = []

    def counted(method, path, body):
        asked.append((method, path))
        return serving(method, path, body)

    assert check_version(counted, manifest, starts=starts) == space
    assert asked == [("GET", "/health")] * starts + [("POST", "/")] * 2


def test_a_missed_golden_vector_is_refused(serving, manifest):
    """A model with vectors that differ from the golden ones is refused, whatever its name."""
    (golden,) = manifest.golden
    head = (golden.embedding_head[0] + 0.05, *golden.embedding_head[1:])
    wrong = manifest._replace(golden=(golden._replace(embedding_head=head),))
    message = r"^a component differs from its golden value by 0\.0500; allowed: 0\.01$"
    with pytest.raises(ReleaseRefusedError, match=message):
        check_version(serving, wrong, starts=3)


def test_a_component_that_is_no_number_is_refused(serving, manifest):
    """Wherever it is in the vector: it is the worst one."""

    def broken(method, path, body):
        answer = serving(method, path, body)
        if body == {"text": "a golden text"}:
            answer.body["embedding"][2] = float("nan")
        return answer

    with pytest.raises(ReleaseRefusedError, match=r"a component differs .* by nan"):
        check_version(broken, manifest, starts=1)


def test_environments_of_two_spaces_are_refused(serving, manifest, space):
    """One of those that were started may be of other code, as during a change of the function."""
    answers = iter([{"vector_space": space}, {"vector_space": OTHER_SPACE}])

    def mixed(method, path, body):
        return Answer(200, next(answers)) if method == "GET" else serving(method, path, body)

    with pytest.raises(ReleaseRefusedError, match=f"serves {space}, {OTHER_SPACE}; its image"):
        check_version(mixed, manifest, starts=2)


def test_a_vector_of_another_length_is_refused(serving, manifest):
    """Cosine similarity by dot product needs vectors of length 1."""

    def long(method, path, body):
        answer = serving(method, path, body)
        if method == "GET":
            return answer
        return Answer(status=200, body={"embedding": [2 * v for v in answer.body["embedding"]]})

    with pytest.raises(ReleaseRefusedError, match=r"a vector has length 2\.0000; allowed: 1"):
        check_version(long, manifest._replace(golden=()), starts=3)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("/health", r"^the new version answers GET /health with 503; allowed: 200$"),
        ("/", r"^the new version answers POST / with 503; allowed: 200$"),
    ],
)
@pytest.mark.parametrize("golden", [True, False], ids=["golden vectors", "no golden vector"])
def test_a_version_that_does_not_answer_200_is_refused(serving, manifest, broken, message, golden):
    """Each path must answer 200; a vector in the body of an error does not count."""

    def partly(method, path, body):
        answer = serving(method, path, body)
        return Answer(status=503, body=answer.body) if path == broken else answer

    with pytest.raises(ReleaseRefusedError, match=message):
        check_version(partly, manifest if golden else manifest._replace(golden=()), starts=3)


@pytest.mark.parametrize("character", ["x", '"', "\n", "ü", "\x1b", "\ud800", "\N{ROCKET}"])
def test_a_long_reason_is_cut(character):
    """CloudFormation rejects a response over 4096 bytes and waits for another one."""
    message = str(ReleaseRefusedError(f"the reason: {5000 * character}"))
    assert MAX_REASON / 2 < len(json.dumps(message)) <= MAX_REASON + 3
    assert message.startswith("the reason: ")
    assert message.endswith(f"{character}...")


class _Aws:
    """A fake of CloudFormation and Lambda, as the check's function calls them.

    `versions` maps a version to the space that it reports, to the status with which it fails, or to
    Lambda's response.
    """

    def __init__(self, router: Router) -> None:
        self.router = router
        self.status = "UPDATE_IN_PROGRESS"
        self.outputs: dict[str, str] = {}
        self.alias: dict[str, Any] | None = {"FunctionVersion": "5"}
        self.versions: dict[str, str | int | dict[str, Any]] = {}
        self.roles: dict[str, str] = {}
        self.inactive: set[str] = set()
        self.pending: set[str] = set()
        self.called: list[str] = []
        #: How many calls get 429 before the others are answered, and the seconds slept.
        self.throttled = 0
        self.slept = 0

    def sleep(self, seconds: int) -> None:
        self.slept += seconds

    def create_client(self, name: str, config: Any = None) -> "_Aws":
        assert name == "cloudformation" or config.read_timeout * 2 < 300
        return self

    def describe_stacks(self, *, StackName: str) -> dict[str, Any]:  # noqa: N803
        assert StackName == STACK
        outputs = [{"OutputKey": k, "OutputValue": v} for k, v in self.outputs.items()]
        return {"Stacks": [{"StackStatus": self.status, "Outputs": outputs}]}

    def get_alias(self, *, FunctionName: str, Name: str) -> dict[str, Any]:  # noqa: N803
        assert (FunctionName, Name) == ("embedder", "live")
        if self.alias is None:
            raise _error("ResourceNotFoundException", 404)
        return self.alias

    def get_function_configuration(self, *, FunctionName: str, Qualifier: str) -> dict[str, str]:  # noqa: N803
        assert FunctionName == "embedder"
        role = self.roles.get(Qualifier, "arn:aws:iam::111122223333:role/embedder")
        return {"Role": role, "State": "Inactive" if Qualifier in self.inactive else "Active"}

    def get_waiter(self, name: str) -> "_Aws":
        assert name == "function_active"
        return self

    def wait(self, *, FunctionName: str, Qualifier: str, WaiterConfig: Any) -> None:  # noqa: N803
        assert FunctionName == "embedder"
        assert WaiterConfig["Delay"] * WaiterConfig["MaxAttempts"] < 300
        if Qualifier not in self.pending:
            raise WaiterError("FunctionActive", "Max attempts exceeded", {})
        self.inactive.discard(Qualifier)

    def invoke(
        self,
        *,
        FunctionName: str,  # noqa: N803
        Qualifier: str,  # noqa: N803
        LogType: str,  # noqa: N803
        Payload: bytes,  # noqa: N803
    ) -> dict[str, Any]:
        assert (FunctionName, LogType) == ("embedder", "Tail")
        self.called.append(Qualifier)
        if Qualifier in self.inactive:
            raise _error("CodeArtifactUserPendingException", 409)
        event = json.loads(Payload)
        found = self.versions.get(Qualifier)
        if found == 429 or len(self.called) <= self.throttled:
            raise _error("TooManyRequestsException", 429)
        if found == 504:
            raise ReadTimeoutError(endpoint_url="lambda")
        if found == 502:
            return crashed({"errorType": "Exit"})
        if isinstance(found, dict):
            return found
        if isinstance(found, str) and event["rawPath"] == "/health":
            body = json.dumps({"status": "ok", "vector_space": found})
            return {"Payload": _stream({"statusCode": 200, "body": body})}
        response = self.router.handle(request_from_event(event))
        return {"Payload": _stream(response_to_event(response))}


def crashed(payload: Any, *log: Any) -> dict[str, Any]:
    """Return Lambda's response of a function that failed, with lines of its log."""
    lines = (line if isinstance(line, str) else json.dumps(line) for line in log)
    tail = base64.b64encode("\n".join(lines).encode()).decode()
    return {"FunctionError": "Unhandled", "Payload": _stream(payload), "LogResult": tail}


def _stream(payload: Any) -> io.BytesIO:
    return io.BytesIO(json.dumps(payload).encode())


def _error(code: str, status: int, message: str = "") -> ClientError:
    response = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(response, "Any")


@pytest.fixture
def aws(router, minilm_artifact, monkeypatch, tmp_path) -> _Aws:
    """Return an account where version 5 serves, with the artifact in Lambda's task root."""
    (tmp_path / "artifact").symlink_to(Path(minilm_artifact.folder).resolve())
    monkeypatch.setenv("LAMBDA_TASK_ROOT", str(tmp_path))
    made = _Aws(router)
    monkeypatch.setattr(release_check, "get_session", lambda: made)
    monkeypatch.setattr(release_check, "sleep", made.sleep)
    return made


def event(kind: str = "Update", **properties: str) -> dict[str, Any]:
    """Return CloudFormation's request to check version 6."""
    return {
        "RequestType": kind,
        "StackId": STACK,
        "ResourceProperties": {
            "Function": "embedder",
            "Version": "6",
            "WarmStarts": "3",
            "Alias": "live",
            "OtherVersion": "",
            "ShiftsTraffic": "true",
            "AllowVectorSpaceChange": "false",
            "BreakGlass": "false",
            "RecordedAs": "VectorSpace",
        }
        | properties,
    }


def refused(message: str, kind: str = "Update", **properties: str) -> None:
    """Check version 6, which is refused with this message."""
    with pytest.raises(ReleaseRefusedError, match=message):
        handler(event(kind, **properties), None)


def passed(space: str) -> dict[str, Any]:
    """Return the response to the custom resource's framework, with the constant physical id."""
    return {"PhysicalResourceId": "release-check", "Data": {"VectorSpace": space}}


@pytest.mark.parametrize(
    "before", [{}, {"OldResourceProperties": {"Function": "embedder", "Version": "5"}}]
)
def test_a_new_version_of_the_same_space_passes(aws, space, before):
    """It is compared with the version that the alias serves; an update has the deploy before."""
    assert handler(event() | before, None) == passed(space)
    assert set(aws.called) == {"5", "6"}


def test_the_first_deploy_is_checked(aws, space):
    """Without an alias only the new version itself is checked."""
    aws.alias = None
    assert handler(event("Create"), None) == passed(space)
    assert set(aws.called) == {"6"}
    aws.versions["6"] = 502
    refused("answers GET /health with 502; allowed: 200", "Create")


@pytest.mark.parametrize("status", [429, 502, 504])
def test_a_new_version_that_cannot_be_called_is_refused(aws, status, caplog):
    """A version that is throttled, crashes or times out is refused, and the log has the reason."""
    aws.versions["6"] = status
    message = f"the new version answers GET /health with {status}; allowed: 200"
    refused(message)
    assert f"release refused: {message}" in caplog.text


_REPORT = {"memorySizeMB": 1769, "maxMemoryUsedMB": 1769, "durationMs": 812.5}
_KILLED = "RequestId: 1f2e Error: Runtime exited with error: signal: killed"


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (
            crashed(
                {"errorType": "RuntimeError", "errorMessage": "the cause", "stackTrace": ["frame"]},
                {"time": "1", "type": "platform.initStart", "record": {"phase": "init"}},
                {"level": "ERROR", "errorType": "RuntimeError", "stackTrace": ["frame"]},
                "a line of plain text",
                {"time": "2", "type": "platform.report", "record": {"status": "success"}},
            ),
            (
                'RuntimeError: the cause\n  {"level": "ERROR", "errorType": "RuntimeError"}\n'
                "  a line of plain text"
            ),
        ),
        (
            crashed(
                {"errorType": "Runtime.ExitError", "errorMessage": _KILLED},
                {
                    "type": "platform.report",
                    "record": {
                        "requestId": "1f2e",
                        "metrics": _REPORT,
                        "status": "error",
                        "errorType": "Runtime.OutOfMemory",
                    },
                },
            ),
            (
                f"Runtime.ExitError: {_KILLED}; out of memory: raise memory_mb under [function]\n"
                '  {"type": "platform.report", "errorType": "Runtime.OutOfMemory", "status": '
                '"error", "maxMemoryUsedMB": 1769, "memorySizeMB": 1769}'
            ),
        ),
        (
            crashed({"errorMessage": "Task timed out after 3.00 seconds"}),
            "Task timed out after 3.00",
        ),
        (crashed("nothing that AWS documents"), ""),
        (crashed({"errorType": "E", "errorMessage": "x" * 500}), f"E: {297 * 'x'}..."),
        (
            {
                "Payload": _stream({"statusCode": 503, "body": '{"error": "at its limit"}'}),
                "LogResult": base64.b64encode(b'{"_aws": {}}\n{"fault": {"type": "E"}}').decode(),
            },
            '{"error": "at its limit"}\n  {"fault": {"type": "E"}}',
        ),
    ],
    ids=["import", "memory", "timeout", "unknown", "long", "answered"],
)
def test_a_refusal_has_the_reason(aws, response, reason):
    """The type and the message of Lambda's error, then the lines of the log that say something."""
    aws.versions["6"] = response
    with pytest.raises(ReleaseRefusedError) as refusal:
        handler(event(WarmStarts="1"), None)
    _, _, told = str(refusal.value).partition("; allowed: 200")
    assert told.removeprefix("; found: ").startswith(reason)
    assert bool(told) == bool(reason)


def test_what_lambda_refuses_is_told(aws, monkeypatch):
    """Without a permission, or without access to the key, no code runs that could log it."""

    def denied(**_: Any) -> None:
        raise _error("AccessDeniedException", 403, "User: R is not authorized to perform: L")

    monkeypatch.setattr(aws, "invoke", denied)
    refused("with 403; allowed: 200; found: AccessDeniedException: User: R is not authorized to")


def test_the_reasons_of_other_versions_are_told(aws):
    """That of an experiment, and the one that serves, for neither says its space."""
    broken = crashed({"errorType": "E", "errorMessage": "the cause"})
    aws.versions["4"] = broken
    refused(r"or no \[experiment\]; found: E: the cause", OtherVersion="4")
    aws.versions["5"] = crashed({"errorType": "E", "errorMessage": "the cause"})
    refused("or are made again; found: E: the cause")


def test_a_throttled_call_is_tried_again_for_a_minute(aws, space):
    """Callers may use all of the concurrency for a moment; a release must not fail for that."""
    aws.throttled = 12
    assert handler(event(WarmStarts="1"), None) == passed(space)
    assert aws.slept == 60
    aws.called.clear()
    aws.throttled = 13
    refused(r"with 429; allowed: 200: .* or raise function\.reserved_concurrency", WarmStarts="1")


@pytest.mark.parametrize("kind", ["Create", "Update"])
@pytest.mark.parametrize(("allowed", "refused"), [("false", True), ("true", False)])
def test_a_change_of_space_depends_on_the_setting(aws, space, kind, allowed, refused):
    """A change is refused unless the settings allow it, also by a new resource of an old alias."""
    aws.versions["5"] = OTHER_SPACE
    asked = event(kind, AllowVectorSpaceChange=allowed)
    if refused:
        with pytest.raises(ReleaseRefusedError) as told:
            handler(asked, None)
        assert str(told.value) == (
            f"the vectors would change from {OTHER_SPACE} to {space}, and vectors of two spaces "
            "must never be compared; allowed: a version of the same space, or "
            "allow_vector_space_change = true under [release] and every stored vector made again"
        )
    else:
        assert handler(asked, None) == passed(space)
        assert "5" not in aws.called


def test_with_a_standby_the_new_index_decides(aws, space, monkeypatch):
    """Another space passes once its index has vectors; the same version then passes again."""
    aws.versions["5"] = OTHER_SPACE
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with local_s3_vectors() as vectors:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3VECTORS", vectors.url)
        index = vectors.create("new", 384)
        change = f"would change from {OTHER_SPACE} to {space}, of which the version's index must"
        refused(
            f"{change} have vectors; found: an index that was never loaded; allowed: under ",
            Index=index.arn,
        )
        index.tags[SPACE_TAG] = "third@1/fp32/0/384"
        refused("found: an index of third@1/fp32/0/384; allowed", Index=index.arn)
        index.tags[SPACE_TAG] = space
        refused("found: no vectors; allowed", Index=index.arn)
        vectors.indexes.clear()
        refused("found: IndexNotFoundError: 404", Index=index.arn)
        full = vectors.load("full", np.eye(2, 384, dtype=np.float32), space, ["a", "b"])
        assert handler(event(Index=full.arn), None) == passed(space)
        # An empty index stops no release of the space that serves.
        aws.versions["5"] = space
        assert handler(event(Index=index.arn), None) == passed(space)
        # The other kinds of models are one for both, and their spaces are compared as ever.
        aws.versions["5"] = f"{OTHER_SPACE} + sparse:a"
        monkeypatch.setattr(release_check, "check_version", lambda *_, **__: f"{space} + sparse:b")
        refused("the vectors would change from .* sparse:a to .* sparse:b", Index=full.arn)


@pytest.mark.parametrize("status", [429, 502, 504])
def test_a_broken_serving_version_can_be_replaced(aws, space, status):
    """The last deploy's record has its space; without a record, the setting must allow a change."""
    aws.versions["5"] = status
    aws.outputs["VectorSpace"] = space
    assert handler(event(), None) == passed(space)
    aws.outputs["VectorSpace"] = OTHER_SPACE
    refused("the vectors would change")
    for outputs in ({}, {"VectorSpace": "unknown"}):
        aws.outputs = outputs
        refused("no earlier deploy recorded it")
    assert handler(event(AllowVectorSpaceChange="true"), None) == passed(space)


def test_break_glass_does_not_ask_the_serving_version_and_still_compares(aws, space):
    """The serving version is not called, and its recorded space is still compared."""
    aws.outputs["VectorSpace"] = space
    assert handler(event(BreakGlass="true"), None) == passed(space)
    assert "5" not in aws.called
    aws.outputs["VectorSpace"] = OTHER_SPACE
    refused("the vectors would change", BreakGlass="true")
    aws.versions["6"] = 502
    refused("the new version answers", BreakGlass="true")


def test_versions_that_share_an_alias_must_have_one_role(aws, space):
    """Lambda refuses weights for two roles; an all-at-once release may change the role."""
    own = aws.roles["6"] = "arn:aws:iam::111122223333:role/own"
    with pytest.raises(ReleaseRefusedError) as told:
        handler(event(), None)
    assert str(told.value) == (
        f"the execution role changes from arn:aws:iam::111122223333:role/embedder to {own}, and "
        "two versions that share an alias must have the same role; allowed: release.kind = "
        '"all-at-once" for this deploy (without [cold_start] if it is '
        '"provisioned"), no '
        "experiment by weights, or the same role"
    )
    assert aws.called == []
    assert handler(event(ShiftsTraffic="false"), None) == passed(space)
    refused("the execution role changes", ShiftsTraffic="false", OtherVersion="12")
    aws.alias = None
    assert handler(event("Create"), None) == passed(space)


def test_another_function_is_refused_before_the_alias_is_replaced(aws):
    """AWS replaces a function if its package changes; no version is called for the refusal."""
    update = event() | {"OldResourceProperties": {"Function": "of-the-zip"}}
    with pytest.raises(ReleaseRefusedError, match="replaces the function of-the-zip by embedder,"):
        handler(update, None)
    assert aws.called == []
    aws.status = "UPDATE_ROLLBACK_IN_PROGRESS"
    assert handler(update, None) == passed("unknown")


@pytest.mark.parametrize("status", ["UPDATE_ROLLBACK_IN_PROGRESS", "ROLLBACK_IN_PROGRESS"])
def test_a_rollback_is_never_refused(aws, status):
    """A rollback passes even if no version answers, to avoid UPDATE_ROLLBACK_FAILED."""
    aws.status = status
    aws.versions = {"5": 502, "6": 502, "12": 502}
    assert handler(event(OtherVersion="12"), None) == passed("unknown")
    aws.outputs["VectorSpace"] = OTHER_SPACE
    assert handler(event(), None) == passed(OTHER_SPACE)
    assert aws.called == []


def test_a_delete_does_nothing(monkeypatch):
    """A deletion makes no call to AWS."""
    monkeypatch.setattr(release_check, "get_session", lambda: pytest.fail("a call to AWS"))
    assert handler({"RequestType": "Delete", "PhysicalResourceId": "release-check"}, None) == {}


def test_a_version_that_serves_already_is_not_checked_again(aws, space):
    """A deploy that only turns a flag on does not depend on the version's health."""
    aws.alias = {"FunctionVersion": "6"}
    aws.versions["6"] = 502
    assert handler(event(AllowVectorSpaceChange="true"), None) == passed(space)
    assert aws.called == []


@pytest.mark.parametrize("served", ["5", "6"], ids=["a new version", "only the experiment"])
@pytest.mark.parametrize("allowed", ["false", "true"])
def test_an_experiment_by_weights_across_spaces_is_refused(aws, served, allowed):
    """One URL would mix two spaces; no setting allows that."""
    aws.alias = {"FunctionVersion": served}
    aws.versions["12"] = OTHER_SPACE
    refused(r"experiment\.percent would answer", OtherVersion="12", AllowVectorSpaceChange=allowed)


def test_an_experiment_by_weights_within_a_space_passes(aws, space):
    """The new version is checked like any other, and again while the weights are in place."""
    weights = {"AdditionalVersionWeights": {"12": 0.1}}
    for alias in ({"FunctionVersion": "5"}, {"FunctionVersion": "5", "RoutingConfig": weights}):
        aws.alias = alias
        assert handler(event(OtherVersion="12"), None) == passed(space)
    assert set(aws.called) == {"5", "6", "12"}
    aws.versions["6"] = 502
    refused("the new version answers", OtherVersion="12")


def test_an_inactive_version_is_compared_once_it_is_active(aws, space):
    """Lambda rejects the first request to a version that had none for weeks, and prepares it."""
    aws.inactive, aws.pending = {"5", "12"}, {"5", "12"}
    assert handler(event(OtherVersion="12"), None) == passed(space)
    assert aws.inactive == set()
    aws.inactive, aws.pending = {"12"}, set()
    refused("version 12 of the experiment does not answer", OtherVersion="12")


def test_the_end_of_an_experiment_and_a_new_version_are_two_deploys(aws, space):
    """CodeDeploy starts from an alias without weights; ending them alone needs no check."""
    weights = {"AdditionalVersionWeights": {"12": 0.1}}
    aws.alias = {"FunctionVersion": "5", "RoutingConfig": weights}
    refused("divides its traffic with version 12")
    assert handler(event(Version="5"), None) == passed(space)
    aws.alias = {"FunctionVersion": "5"}
    assert handler(event(), None) == passed(space)
