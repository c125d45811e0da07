"""The check that a new version must pass before it is given traffic: CodeDeploy's pre-traffic hook.

It runs from the same image as the version that it checks, as a function of its own, so it holds the
manifest of what should be served. It warms the new version (the first starts after a deploy are the
slowest of all), compares its vectors with the manifest's golden ones, and refuses a version whose
vectors cannot be compared with those of the version that serves now.
"""

import json
import logging
import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.session import get_session

from embedder.artifact import Manifest, load_artifact

__all__ = ["Answer", "Call", "ReleaseRefusedError", "check", "handler"]

#: Environments that are started at once, so that the first requests do not queue behind one start.
WARM_STARTS = 3
#: How far a component may be from its golden value. The golden ones are computed where the image is
#: built: another processor's int8 kernels differ by thousandths, another model by the size of the
#: components themselves.
TOLERANCE = 0.01

_log = logging.getLogger(__name__)


class ReleaseRefusedError(Exception):
    """The new version must not be given traffic; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An endpoint's HTTP answer."""

    status: int
    body: Mapping[str, Any]


#: Sends a request (method, path, body) to one version.
Call = Callable[[str, str, Mapping[str, Any] | None], Answer]


def check(
    *, new: Call, live: Call, manifest: Manifest, allow_vector_space_change: bool = False
) -> None:
    """Warm a new version and check it.

    Args:
        new: Calls the new version.
        live: Calls the version that serves now.
        manifest: What the new version should serve.
        allow_vector_space_change: Whether its vectors may be of another space than those of now.

    Raises:
        ReleaseRefusedError: It fails a check.
    """
    with ThreadPoolExecutor(WARM_STARTS) as pool:
        spaces = set(pool.map(lambda _: _vector_space(new, "the new version"), range(WARM_STARTS)))
    expected = manifest.vector_space_of(dimension=manifest.dimension)
    if spaces != {expected}:
        raise ReleaseRefusedError(
            f"the new version serves {', '.join(sorted(spaces))}; its image holds {expected}"
        )
    for golden in manifest.golden:
        vector = _embed(new, golden.text, golden.prompt)
        pairs = zip(golden.embedding_head, vector, strict=False)
        worst = max(abs(wanted - found) for wanted, found in pairs)
        if worst > TOLERANCE:
            raise ReleaseRefusedError(
                f"a golden vector is missed by {worst:.4f}; allowed: {TOLERANCE} a component"
            )
    length = math.hypot(*_embed(new, "hello world", None))
    if abs(length - 1) > TOLERANCE:
        raise ReleaseRefusedError(f"a vector has length {length:.4f}; allowed: 1")
    if not allow_vector_space_change:
        serving = _vector_space(live, "the version that serves now")
        if serving != expected:
            raise ReleaseRefusedError(
                f"the vectors would change from {serving} to {expected}, and vectors of two spaces "
                "must never be compared; allowed: a version of the same space, or "
                "allow_vector_space_change = true under [release] and every stored vector made anew"
            )


def handler(event: Mapping[str, str], context: Any) -> None:  # noqa: ARG001 - Lambda's signature
    """Check the version that the environment names, and tell CodeDeploy what came of it."""
    session = get_session()
    client = session.create_client("lambda")
    function = os.environ["RELEASE_FUNCTION"]
    status = "Failed"
    try:
        check(
            new=_caller(client, function, os.environ["RELEASE_VERSION"]),
            live=_caller(client, function, os.environ["RELEASE_ALIAS"]),
            manifest=load_artifact(Path(__file__).parents[1] / "artifact").manifest,
            allow_vector_space_change=os.environ["RELEASE_ALLOW_VECTOR_SPACE_CHANGE"] == "true",
        )
        status = "Succeeded"
    except ReleaseRefusedError as error:
        _log.error("release refused: %s", error)
    finally:
        # CodeDeploy waits an hour for an answer; a fault of ours must be one too.
        session.create_client("codedeploy").put_lifecycle_event_hook_execution_status(
            deploymentId=event["DeploymentId"],
            lifecycleEventHookExecutionId=event["LifecycleEventHookExecutionId"],
            status=status,
        )


def _caller(client: Any, function: str, qualifier: str) -> Call:
    def call(method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        response = client.invoke(
            FunctionName=function, Qualifier=qualifier, Payload=_event(method, path, body)
        )
        payload = json.loads(response["Payload"].read())
        if "FunctionError" in response:
            return Answer(status=502, body={"error": payload.get("errorType", "unknown")})
        return Answer(status=payload["statusCode"], body=json.loads(payload["body"]))

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


def _vector_space(call: Call, who: str) -> str:
    answer = call("GET", "/health", None)
    if answer.status != 200:
        raise ReleaseRefusedError(
            f"{who} answers GET /health with {answer.status}; allowed: 200. To replace a version "
            "that no longer answers, set allow_vector_space_change = true under [release]"
        )
    return str(answer.body["vector_space"])


def _embed(call: Call, text: str, prompt: str | None) -> list[float]:
    body = {"text": text} | ({"prompt_name": prompt} if prompt else {})
    answer = call("POST", "/", body)
    if answer.status != 200:
        raise ReleaseRefusedError(f"the new version answers with {answer.status}; allowed: 200")
    vector: list[float] = answer.body["embedding"]
    return vector
