"""Check a new version before the alias moves to it, as a CloudFormation custom resource.

The check runs in a separate function with the same image as the version that it checks, so it can
read the manifest that the version should serve. It starts several environments of the new version
(the first starts after a deploy are the slowest), compares its vectors with the manifest's golden
vectors, and refuses a version if its vectors cannot be compared with the stored ones.

`handler` is the `on_event` handler of a custom resource. `cdk deploy` prints the message of
the exception that it raises. CloudFormation accepts a response of at most 4096 bytes:
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-responses.html
"""

import base64
import json
import logging
import math
import os
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from time import sleep
from typing import Any

from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError, WaiterError
from botocore.session import get_session

from embedder.core.artifact import (
    Golden,
    GoldenPair,
    GoldenTerms,
    GoldenText,
    Manifest,
    load_manifests,
)
from embedder.core.settings import EmbedderSettings

#: The largest difference between a component and its golden value. The golden vectors are computed
#: on the machine that builds the image: int8 kernels of another processor differ by thousandths,
#: and another model by as much as the components themselves.
TOLERANCE = 0.01
#: The same of logits and of sparse weights, as a part of them; in absolute numbers up
#: to 1.
SCORE_TOLERANCE = 0.1
#: The maximum bytes of a refusal's message as JSON. CDK's framework and the other fields of the
#: response have about 900.
MAX_REASON = 3000
#: Characters of an error's type and message in a refusal, and of each line of a log.
_MAX_ERROR = 300
_LAST_LINES = 5
#: What a refusal shows of a line of JSON in a log.
_SHOWN = ("type", "level", "message", "error", "fault", "errorType", "errorMessage", "status")
_MEMORY = ("maxMemoryUsedMB", "memorySizeMB")
#: How Lambda reports a process that used more memory than the function has.
_OUT_OF_MEMORY = ("signal: killed", "Runtime.OutOfMemory")
#: Seconds to wait for one response. All responses must arrive within the function's five minutes.
_READ_TIMEOUT = 60
#: Other requests may use all of the function's concurrency for a moment: a minute of tries.
_TRIES, _PAUSE = 13, 5
_THROTTLED = 429
#: Two minutes, of the same five.
_ACTIVATION = {"Delay": 5, "MaxAttempts": 24}
_UNKNOWN = "unknown"
#: The fields of `GET /health` of which a model has one.
_SPACES = ("vector_space", "score_space", "label_space")
#: Between the spaces of models that one function serves.
SEPARATOR = " + "

_log = logging.getLogger(__name__)


class ReleaseRefusedError(Exception):
    """The alias must not move to the new version; the message gives the reason and the fix."""

    def __init__(self, message: str) -> None:
        shown = message
        while len(json.dumps(shown)) > MAX_REASON:
            shown = shown[: len(shown) * 9 // 10]
        super().__init__(shown if shown == message else f"{shown}...")


@dataclass(frozen=True, slots=True)
class Answer:
    """A version's HTTP response, or a status without a body if the call failed."""

    status: int
    #: A JSON object, or a list.
    body: Any
    #: Why the call failed, for the operator: Lambda's error, and the end of the version's log.
    reason: str = ""


#: A function that sends a request (method, path, body) to one version.
Call = Callable[[str, str, Mapping[str, Any] | None], Answer]


def check_version(new: Call, *manifests: Manifest, starts: int) -> str:
    """Warm a new version, compare its answers with the golden ones, return its spaces.

    `starts` environments start at the same time, so that the first requests do not wait for one.
    An answer that is not as it must be is a `ReleaseRefusedError`.
    """
    with ThreadPoolExecutor(starts) as pool:
        answers = list(pool.map(lambda _: new("GET", "/health", None), range(starts)))
    for answer in answers:
        _require_ok(answer, "GET /health")
    spaces = {_spaces_in(answer.body) for answer in answers}
    expected = spaces_of(*manifests)
    if spaces != {expected}:
        raise ReleaseRefusedError(
            f"the new version serves {', '.join(sorted(spaces))}; its image holds {expected}"
        )
    for manifest in manifests:
        _CHECKS[manifest.task](new, manifest)
    return expected


def _check_vectors(new: Call, manifest: Manifest) -> None:
    for golden in manifest.golden:
        assert isinstance(golden, Golden)  # noqa: S101 - for mypy: the task decides the kind
        vector = _embed(new, golden.text, golden.prompt)
        # The worst component is named; one that is no number is the worst.
        pairs = zip(golden.embedding_head, vector, strict=False)
        worst = max(pairs, key=lambda pair: (math.isnan(pair[1]), abs(pair[0] - pair[1])))
        _compare("a component", *worst, TOLERANCE)
    length = math.hypot(*_embed(new, "hello world", None))
    if not abs(length - 1) <= TOLERANCE:
        raise ReleaseRefusedError(f"a vector has length {length:.4f}; allowed: 1")


def _embed(new: Call, text: str, prompt: str | None) -> Any:
    body = {"text": text} | ({"prompt_name": prompt} if prompt else {})
    return _post(new, "/", body)["embedding"]


def _check_scores(new: Call, manifest: Manifest) -> None:
    labels = manifest.scoring.labels if manifest.scoring else ()
    for golden in manifest.golden:
        assert isinstance(golden, GoldenPair | GoldenText)  # noqa: S101 - for mypy: as the task says
        body = {"inputs": [*golden[:-1]], "raw_scores": True, "truncate": True}
        logits = {entry["label"]: entry["score"] for entry in _post(new, "/predict", body)}
        for label, logit in zip(labels, golden.logits, strict=True):
            allowed = SCORE_TOLERANCE * max(1, abs(logit))
            _compare(f"the logit of {label}", logit, logits[label], allowed)


def _check_weights(new: Call, manifest: Manifest) -> None:
    for golden in manifest.golden:
        assert isinstance(golden, GoldenTerms)  # noqa: S101 - for mypy: the task decides the kind
        # Not `POST /`, which is the embedding model's where both are served.
        body = {"inputs": golden.text} | ({"prompt_name": golden.prompt} if golden.prompt else {})
        (vector,) = _post(new, "/embed_sparse", body)
        weights = {entry["index"]: entry["value"] for entry in vector}
        for index, weight in zip(golden.indices, golden.values, strict=True):
            allowed = SCORE_TOLERANCE * max(1, weight)
            _compare(f"the weight of token {index}", weight, weights.get(index, 0), allowed)


def _compare(name: str, golden: float, value: float, allowed: float) -> None:
    difference = abs(golden - value)
    if not difference <= allowed:  # NaN is refused, too
        raise ReleaseRefusedError(
            f"{name} differs from its golden value by {difference:.4f}; allowed: {allowed:.4g}"
        )


_CHECKS = {
    "classify": _check_scores,
    "embed": _check_vectors,
    "rerank": _check_scores,
    "sparse": _check_weights,
}


def spaces_of(*manifests: Manifest) -> str:
    """Name the spaces of what is served together: the first one's, then each other's by task."""
    main, *counterparts = manifests
    return _joined(main.space, {manifest.task: manifest.space for manifest in counterparts})


def _joined(space: str, counterparts: Mapping[str, str]) -> str:
    named = (f"{task}:{name}" for task, name in sorted(counterparts.items()))
    return SEPARATOR.join([space, *named])


def _differ(one: str, other: str) -> bool:
    """Return whether two versions have a kind of model in common with another space."""
    (space, *named), (other_space, *other_named) = one.split(SEPARATOR), other.split(SEPARATOR)
    counterparts = dict(name.split(":", 1) for name in named)
    other_counterparts = dict(name.split(":", 1) for name in other_named)
    return space != other_space or any(
        counterparts[task] != other_counterparts[task]
        for task in counterparts.keys() & other_counterparts
    )


def check_spaces(*, new: str, serving: str | None, other: str | None) -> None:
    """Compare the new version's spaces, as `spaces_of` names them, with those it would meet.

    `serving` is that of the stored vectors, None if a change is allowed or none are stored; `other`
    that of a version that receives part of the URL's requests. A model of another kind may be added
    to a function or leave it: no stored vector is of it.
    """
    if other is not None and _differ(other, new):
        raise ReleaseRefusedError(
            f"experiment.percent would answer with vectors of {new} and of {other} at one URL, and "
            "a caller cannot distinguish them; allowed: two versions of one vector space, or no "
            "experiment.percent"
        )
    if serving is not None and _differ(serving, new):
        raise ReleaseRefusedError(
            f"the vectors would change from {serving} to {new}, and vectors of two spaces must "
            "never be compared; allowed: a version of the same space, or "
            "allow_vector_space_change = true under [release] and every stored vector made again"
        )


def check_index(arn: str, model: Manifest, *, new: str, serving: str) -> None:
    """Refuse a version whose index has no vectors of its space.

    An environment with two models keeps both of their indexes up to date, so either model may
    answer. An index without vectors is that of a third model, or one that an older file made again.
    """
    problem = _problem_of(arn, model)
    if problem:
        raise ReleaseRefusedError(
            f"the vectors would change from {serving} to {new}, of which the version's index must "
            f"have vectors; found: {problem}; allowed: under [model] one of the two models that "
            "are deployed, that of [standby] after scripts/migrate NAME copy"
        )


def _problem_of(arn: str, model: Manifest) -> str | None:
    """Return why a model finds nothing in an index; None if it finds something."""
    # It imports numpy, which only a change of the space needs.
    from embedder.core import s3_vectors  # noqa: PLC0415

    region, usual = s3_vectors.parse_arn(arn)
    endpoint = EmbedderSettings.from_env(os.environ).s3_vectors_endpoint or usual
    client = s3_vectors.S3VectorsClient(region=region, endpoint=endpoint)
    spaces = {model.vector_space_of(dimensions=number): number for number in model.dimensions}
    try:
        space = client.tags(arn, deadline=None).get(s3_vectors.SPACE_TAG)
        if space not in spaces:
            return f"an index of {space}" if space else "an index that was never loaded"
        query = {"float32": [1.0] + [0.0] * (spaces[space] - 1)}
        request = {"indexArn": arn, "topK": 1, "queryVector": query}
        return None if client.query(request, deadline=None)["vectors"] else "no vectors"
    except s3_vectors.S3VectorsError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        client.forget()


def check_roles(new: str, other: str) -> None:
    """Compare the ARNs of the execution roles of two versions that will share an alias.

    Lambda refuses weights on an alias of two versions with different roles:
    https://docs.aws.amazon.com/lambda/latest/dg/configuring-alias-routing.html
    """
    if new != other:
        raise ReleaseRefusedError(
            f"the execution role changes from {other} to {new}, and two versions that share an "
            'alias must have the same role; allowed: release.kind = "all-at-once" for this deploy '
            '(without [cold_start] if it is "provisioned"), no experiment by '
            "weights, or the same role"
        )


def check_function(new: str, deployed: str | None) -> None:
    """Refuse another function behind the alias: the alias and its URL would be new ones, too.

    CloudFormation replaces a function if its package type or name changes:
    https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-lambda-function.html
    """
    if deployed is not None and new != deployed:
        raise ReleaseRefusedError(
            f"this deploy replaces the function {deployed} by {new}, as AWS does if the package or "
            "the name of a function changes, and the URL and the callers' permissions would be "
            "lost; allowed: the package and the name that are deployed, or a second endpoint "
            "next to this one, to which callers move"
        )


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:  # noqa: ARG001 - Lambda's signature
    """Check the version of a custom resource's request on Create and Update.

    A rollback is never refused: the version to which it returns was checked when it was deployed,
    and a failure here would leave the stack in UPDATE_ROLLBACK_FAILED.
    """
    if event["RequestType"] == "Delete":
        return {}
    session = get_session()
    stacks = session.create_client("cloudformation")
    (stack,) = stacks.describe_stacks(StackName=event["StackId"])["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    properties = event["ResourceProperties"]
    recorded = outputs.get(properties["RecordedAs"])
    if "ROLLBACK" in stack["StackStatus"]:
        return _passed(recorded or _UNKNOWN)
    config = Config(read_timeout=_READ_TIMEOUT, retries={"mode": "standard", "max_attempts": 2})
    client = session.create_client("lambda", config=config)
    try:
        deployed = event.get("OldResourceProperties", {}).get("Function")
        check_function(properties["Function"], deployed)
        return _passed(_check(client, properties, recorded))
    except ReleaseRefusedError as error:
        _log.error("release refused: %s", error)
        raise


def _passed(space: str) -> dict[str, Any]:
    return {"PhysicalResourceId": "release-check", "Data": {"VectorSpace": space}}


def _check(client: Any, properties: Mapping[str, str], recorded: str | None) -> str:
    function, version = properties["Function"], properties["Version"]
    experiment = properties["OtherVersion"]
    alias = _alias(client, function, properties["Alias"])
    served = alias["FunctionVersion"] if alias else None
    weights = (alias or {}).get("RoutingConfig", {}).get("AdditionalVersionWeights")
    manifests = [*load_manifests(EmbedderSettings.from_env(os.environ).artifact).values()]
    if version == served and not experiment:
        return spaces_of(*manifests)
    if weights and not experiment:
        # CodeDeploy sets the alias's weights itself and expects an alias without any.
        raise ReleaseRefusedError(
            f"the alias {properties['Alias']} divides its traffic with version "
            f"{', '.join(weights)}, and a release starts from one version; allowed: to end the "
            "experiment in a deploy of its own, without a change of model or function, and to "
            "deploy this version after it; scripts/reset-traffic, if a failed release left the "
            "weights"
        )
    beside = experiment or (served if properties["ShiftsTraffic"] == "true" else None)
    if beside:
        check_roles(*(_role(client, function, number) for number in (version, beside)))
    call = _caller(client, function, version)
    space = check_version(call, *manifests, starts=int(properties["WarmStarts"]))
    serving = None
    if served and version != served and properties["AllowVectorSpaceChange"] != "true":
        live = None if properties["BreakGlass"] == "true" else _active(client, function, served)
        serving = _serving_space(live, recorded)
        serving_space, *counterparts = serving.split(SEPARATOR)
        own_space = space.partition(SEPARATOR)[0]
        if serving_space != own_space and "Index" in properties:
            check_index(properties["Index"], manifests[0], new=own_space, serving=serving_space)
            # The other kinds of models are compared as in every release.
            serving = SEPARATOR.join([own_space, *counterparts])
    compared = None
    if experiment:
        answer = _active(client, function, experiment)("GET", "/health", None)
        compared = _space_of(answer)
        if compared is None:
            raise ReleaseRefusedError(
                f"version {experiment} of the experiment does not answer GET /health with 200; "
                f"allowed: a version that answers, or no [experiment]{_found(answer)}"
            )
    check_spaces(new=space, serving=serving, other=compared)
    return space


def _serving_space(live: Call | None, recorded: str | None) -> str:
    """Return the serving version's space, from its own response or from the stack's record."""
    answer = live("GET", "/health", None) if live else Answer(status=0, body={})
    space = _space_of(answer) or (recorded if recorded != _UNKNOWN else None)
    if space is None:
        raise ReleaseRefusedError(
            "the version that serves now does not say which vectors it makes, and no earlier "
            "deploy recorded it; allowed: allow_vector_space_change = true under [release], if "
            "the stored vectors are of the new version's space or are made again"
            f"{_found(answer)}"
        )
    return space


def _alias(client: Any, function: str, name: str) -> Mapping[str, Any] | None:
    try:
        alias: Mapping[str, Any] = client.get_alias(FunctionName=function, Name=name)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return None
        raise
    return alias


def _role(client: Any, function: str, version: str) -> str:
    return str(client.get_function_configuration(FunctionName=function, Qualifier=version)["Role"])


def _active(client: Any, function: str, version: str) -> Call:
    """Return what calls an older version, once it is Active.

    Lambda makes a version Inactive that was not invoked for weeks, and rejects its first invocation
    (https://docs.aws.amazon.com/lambda/latest/dg/functions-states.html).
    """
    call = _caller(client, function, version)
    target = {"FunctionName": function, "Qualifier": version}
    if client.get_function_configuration(**target).get("State") == "Inactive":
        call("GET", "/health", None)
        # If it cannot be made Active, it does not answer the comparison either.
        with suppress(WaiterError):
            client.get_waiter("function_active").wait(**target, WaiterConfig=_ACTIVATION)
    return call


def _caller(client: Any, function: str, version: str) -> Call:
    def call(method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        for _ in range(_TRIES - 1):
            answer = once(method, path, body)
            if answer.status != _THROTTLED:
                return answer
            sleep(_PAUSE)
        return once(method, path, body)

    def once(method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        try:
            response = client.invoke(
                FunctionName=function,
                Qualifier=version,
                LogType="Tail",
                Payload=_event(method, path, body),
            )
        except ReadTimeoutError:
            return Answer(status=504, body={}, reason=f"no response in {_READ_TIMEOUT} seconds")
        except ClientError as error:
            # Lambda itself refuses the call, as without a permission or without access to a key.
            refusal, status = error.response["Error"], error.response["ResponseMetadata"]
            reason = _cut(f"{refusal['Code']}: {refusal.get('Message')}")
            return Answer(status=status["HTTPStatusCode"], body={}, reason=reason)
        payload = json.loads(response["Payload"].read())
        log = base64.b64decode(response.get("LogResult", "")).decode(errors="replace")
        if "FunctionError" in response:
            return Answer(status=502, body={}, reason=_function_error(payload, log))
        status, answered = payload["statusCode"], payload["body"]
        reason = "" if status == 200 else f"{_cut(answered)}{_end_of(log)}"
        return Answer(status=status, body=json.loads(answered), reason=reason)

    return call


def _event(method: str, path: str, body: Mapping[str, Any] | None) -> bytes:
    event = {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "requestContext": {"http": {"method": method, "path": path}},
        "isBase64Encoded": False,
    }
    if body is not None:
        event["body"] = json.dumps(body)
    return json.dumps(event).encode()


def _function_error(payload: Any, log: str) -> str:
    """Return the type and the message of a function's error, and the end of its log.

    https://docs.aws.amazon.com/lambda/latest/dg/python-exceptions.html
    """
    error = payload if isinstance(payload, dict) else {}
    named = (error[key] for key in ("errorType", "errorMessage") if error.get(key))
    reason = _cut(": ".join(map(str, named)))
    if any(words in f"{reason}{log}" for words in _OUT_OF_MEMORY):
        reason += "; out of memory: raise memory_mb under [function]"
    return f"{reason}{_end_of(log)}"


def _end_of(log: str) -> str:
    """Return the last lines of a log that say what happened, each after a line break.

    The check sends texts of the manifest only, so a log of its calls has no text of a user.
    """
    lines = deque(filter(None, map(_shown, log.splitlines())), maxlen=_LAST_LINES)
    return "".join(f"\n  {_cut(line)}" for line in lines)


def _shown(line: str) -> str:
    """Return what a refusal shows of a line of a log in Lambda's JSON format, or of a plain one.

    https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html
    """
    try:
        entry = json.loads(line)
    except ValueError:
        return line.strip()
    if not isinstance(entry, dict):
        return line.strip()
    record = entry.get("record")
    if isinstance(record, dict):
        metrics = record.get("metrics", {})
        if record.get("status", "success") == "success":
            return ""
        entry = entry | record | {name: metrics[name] for name in _MEMORY if name in metrics}
    shown = {name: entry[name] for name in (*_SHOWN, *_MEMORY) if entry.get(name) is not None}
    return json.dumps(shown) if shown else ""


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_ERROR else f"{text[:_MAX_ERROR]}..."


def _found(answer: Answer) -> str:
    return f"; found: {answer.reason}" if answer.reason else ""


def _space_of(answer: Answer) -> str | None:
    return _spaces_in(answer.body) if answer.status == 200 else None


def _spaces_in(health: Mapping[str, Any]) -> str:
    """Return the spaces in a response to `GET /health`, as `spaces_of` names them."""
    counterparts = {
        task: _space_in(model) for task, model in health.items() if isinstance(model, dict)
    }
    return _joined(_space_in(health), counterparts)


def _space_in(model: Mapping[str, Any]) -> str:
    return str(next(model[name] for name in _SPACES if model.get(name) is not None))


def _post(new: Call, path: str, body: Mapping[str, Any]) -> Any:
    answer = new("POST", path, body)
    _require_ok(answer, f"POST {path}")
    return answer.body


def _require_ok(answer: Answer, request: str) -> None:
    if answer.status != 200:
        used_up = (
            ": the function's or the account's concurrency is used up, and the check needs a part "
            "of it; deploy again with less traffic, or raise function.reserved_concurrency"
            if answer.status == _THROTTLED
            else ""
        )
        raise ReleaseRefusedError(
            f"the new version answers {request} with {answer.status}; "
            f"allowed: 200{used_up}{_found(answer)}"
        )
