"""The input of the checks, read once: the deployed resources and the endpoint's answers."""

import functools
import json
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx2

from embedding_client._auth import LOOPBACK
from embedding_client.doctor import SkippedError
from embedding_client.doctor.probes import Aws, AwsCallError, NoValidCredentialsError, Reply, Web
from embedding_client.errors import CredentialsError

_ALIAS = re.compile(
    r"arn:aws[\w-]*:lambda:[\w-]+:(?P<account>\d{12})"
    r":function:(?P<function>[\w-]+):(?P<name>[\w-]+)"
)
_STACK = re.compile(r"EmbeddingKit-(?P<environment>.+)-Endpoint")
_HELLO = b'{"text": "hello world"}'
_HELLO_PAIR = b'{"inputs": ["hello", "hello world"]}'
_Snapshot = TypeVar("_Snapshot", bound="Snapshot")
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """The endpoint to check, and the values to compare it with."""

    #: None for that of the environment.
    url: str | None = None
    #: None if only the URL is known.
    environment: str | None = None
    #: The vector space of the stored vectors.
    vector_space: str | None = None
    accept_vector_space: bool = False
    image_days: int = 90
    #: Whether the credentials are those of a deploy, which need not be a caller's.
    deployer: bool = False


class Alias(NamedTuple):
    """The alias that callers reach."""

    arn: str
    account: str
    function: str
    name: str


class NoAnswer(NamedTuple):
    """Why a request got no answer."""

    reason: str


def once(method: Callable[[_Snapshot], _T]) -> Callable[[_Snapshot], _T]:
    """Call a method once for each object, from whatever thread; its error is kept too."""
    name = method.__name__

    @functools.wraps(method)
    def called(self: _Snapshot) -> _T:
        with self.lock:
            mine = name not in self.futures
            future = self.futures.setdefault(name, Future())
        if mine:
            try:
                future.set_result(method(self))
            except BaseException as error:
                future.set_exception(error)
        result: _T = future.result()
        return result

    return called


@dataclass(eq=False, kw_only=True)
class Snapshot:
    """Reads each thing once, when the first check needs it.

    A method raises `SkippedError` without permission or credentials, or if nothing is deployed.
    """

    options: DoctorOptions
    #: AWS's APIs, in the endpoint's region.
    aws: Aws
    web: Web
    #: None if it is not configured.
    region: str | None
    #: The file with the vector space of each endpoint that was used.
    memory: Path
    clock: Callable[[], datetime]
    lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    futures: dict[str, Future[Any]] = field(default_factory=dict, init=False)

    @property
    def is_local(self) -> bool:
        """Whether the URL is one of this machine."""
        return self.options.url is not None and urlsplit(self.options.url).hostname in LOOPBACK

    def require_aws(self) -> None:
        """Skip a check of resources on AWS if there are none."""
        if self.is_local:
            raise SkippedError("a URL of this machine has no resources on AWS")
        self.identity()

    @once
    def identity(self) -> dict[str, Any]:
        """Return the caller's account and ARN."""
        if self.region is None:
            raise NoValidCredentialsError("no region is configured")
        return self.aws.call("sts", "get_caller_identity")

    @once
    def all_stacks(self) -> list[dict[str, Any]]:
        """Return the stacks of the account and region."""
        self.require_aws()
        return self.aws.pages("cloudformation", "describe_stacks", "Stacks")

    @once
    def stack(self) -> dict[str, Any] | None:
        """Return the stack of the endpoint; None if there is none."""
        if self.options.environment is not None:
            return self.stacks().get("Endpoint")
        url = (self.options.url or "").rstrip("/")
        for stack in self.all_stacks():
            if url in {value.rstrip("/") for value in _outputs(stack).values()}:
                return stack
        return None

    @once
    def outputs(self) -> dict[str, str]:
        """Return the outputs of the endpoint's stack."""
        if stack := self.stack():
            return _outputs(stack)
        if self.options.environment:
            raise SkippedError(f"{self.options.environment} is not deployed, see below")
        raise SkippedError("no stack of this account and region has the URL as an output")

    @once
    def environment(self) -> str:
        """Return the environment's name."""
        if self.options.environment is not None:
            return self.options.environment
        self.outputs()
        named = _STACK.fullmatch(str((self.stack() or {}).get("StackName")))
        if named is None:
            raise SkippedError("the endpoint belongs to a stack of another app")
        return named["environment"]

    @once
    def url(self) -> str:
        """Return the endpoint's URL, without a slash at its end."""
        url = self.options.url or self.outputs().get("Url")
        if not url:
            raise SkippedError("the stack of the endpoint has no output Url")
        return url.rstrip("/")

    @once
    def alias(self) -> Alias:
        """Return the alias that callers reach."""
        self.require_aws()
        for value in self.outputs().values():
            if match := _ALIAS.fullmatch(value):
                return Alias(arn=value, **match.groupdict())
        raise SkippedError("the stack of the endpoint has no output with the alias's ARN")

    @once
    def stacks(self) -> dict[str, dict[str, Any]]:
        """Return the stacks of the environment by the end of their name, such as `Endpoint`."""
        prefix = f"EmbeddingKit-{self.environment()}-"
        stacks = {stack["StackName"]: stack for stack in self.all_stacks()}
        # The environment `a-b` has names that begin with those of `a`, and a suffix has no hyphen.
        return {
            suffix: stack
            for name, stack in stacks.items()
            if name.startswith(prefix) and "-" not in (suffix := name.removeprefix(prefix))
        }

    def output(self, suffix: str, key: str) -> str | None:
        """Return an output of a stack; None without the stack or the output."""
        stack = self.stacks().get(suffix)
        return None if stack is None else _outputs(stack).get(key)

    @once
    def resources(self) -> dict[str, str]:
        """Return the physical id of a resource of each type in the endpoint's stack."""
        return {resource_type: name for resource_type, name in self._resources("Endpoint") if name}

    @once
    def alarm_names(self) -> list[str]:
        """Return the names of the alarms of the endpoint and of its monitoring."""
        suffixes = [name for name in ("Endpoint", "Observability") if name in self.stacks()]
        return [
            name
            for suffix in suffixes
            for resource_type, name in self._resources(suffix)
            if resource_type in {"AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm"}
        ]

    @once
    def function(self) -> dict[str, Any]:
        """Return the configuration of the version behind the alias."""
        alias = self.alias()
        version = {"FunctionName": alias.function, "Qualifier": alias.name}
        return self.aws.call("lambda", "get_function_configuration", **version)

    @once
    def policy(self) -> list[dict[str, Any]]:
        """Return the statements of the alias's policy."""
        alias = self.alias()
        try:
            answer = self.aws.call(
                "lambda", "get_policy", FunctionName=alias.function, Qualifier=alias.name
            )
        except AwsCallError as error:
            if error.code != "ResourceNotFoundException":
                raise
            return []
        statements: list[dict[str, Any]] = json.loads(answer["Policy"])["Statement"]
        return statements

    @once
    def deployment(self) -> dict[str, Any] | None:
        """Return CodeDeploy's newest deployment of the endpoint; None without one."""
        resources = self.resources()
        if "AWS::CodeDeploy::DeploymentGroup" not in resources:
            raise SkippedError("an experiment by weights: CodeDeploy does not move the alias")
        where = {
            "applicationName": resources["AWS::CodeDeploy::Application"],
            "deploymentGroupName": resources["AWS::CodeDeploy::DeploymentGroup"],
        }
        group = self.aws.call("codedeploy", "get_deployment_group", **where)
        newest = group["deploymentGroupInfo"].get("lastAttemptedDeployment")
        if newest is None:
            return None
        described = self.aws.call(
            "codedeploy", "get_deployment", deploymentId=newest["deploymentId"]
        )
        info: dict[str, Any] = described["deploymentInfo"]
        return info

    @once
    def unsigned(self) -> Reply | NoAnswer:
        """Return the answer to a request without a signature and a key."""
        return self._hello(signed=False)

    @once
    def is_server(self) -> bool:
        """Return whether a server is at the URL: a function has no path `/ready`."""
        reply = self.send("GET", "/ready", signed=False)
        return isinstance(reply, Reply) and reply.status in {200, 503}

    @property
    def takes_signatures(self) -> bool:
        """Whether the endpoint wants requests to be signed; not with API keys, or as a server."""
        reply = self.unsigned()
        if isinstance(reply, NoAnswer) or reply.status not in {200, 401}:
            return True
        return reply.status == 200 and not self.is_server()

    @once
    def signed(self) -> Reply | NoAnswer:
        """Return the answer to a signed request for a vector, or for scores."""
        return self._hello(signed=True)

    def _hello(self, *, signed: bool) -> Reply | NoAnswer:
        reply = self.send("POST", "/", _HELLO, signed=signed)
        # A reranker has nothing at the root, and a classifier refuses to embed there.
        if isinstance(reply, Reply) and reply.status in {404, 424}:
            reply = self.send("POST", "/predict", _HELLO_PAIR, signed=signed)
        return reply

    def served_space(self) -> str:
        """Return the vector space of that answer, or that of its scores, or skip."""
        reply = self.signed()
        if isinstance(reply, Reply) and reply.status == 200:
            for header in ("x-vector-space", "x-score-space", "x-label-space"):
                if space := reply.headers.get(header):
                    return space
        raise SkippedError("no vector in answer to a signed request, see above")

    def served_spaces(self) -> str:
        """Return that space, and after it those of the models that the endpoint serves besides."""
        space, health = self.served_space(), self.send("GET", "/health")
        if isinstance(health, NoAnswer) or health.status != 200:
            return space
        with suppress(ValueError, AttributeError):
            for task, model in json.loads(health.body).items():
                if isinstance(model, dict):
                    space += f" + {task}:{model.get('vector_space') or model.get('score_space')}"
        return space

    def send(
        self, method: str, path: str, body: bytes | None = None, *, signed: bool = True
    ) -> Reply | NoAnswer:
        """Send a request to the endpoint."""
        try:
            return self.web.send(method, self.url() + path, body, signed=signed)
        except CredentialsError as error:
            raise NoValidCredentialsError(str(error)) from error
        except httpx2.HTTPError as error:
            return NoAnswer(f"{type(error).__name__}: {error}".rstrip(": "))

    def _resources(self, suffix: str) -> list[tuple[str, str]]:
        self.outputs()
        name = ((self.stack() if suffix == "Endpoint" else self.stacks()[suffix]) or {})[
            "StackName"
        ]
        listed = self.aws.pages(
            "cloudformation", "list_stack_resources", "StackResourceSummaries", StackName=name
        )
        return [(item["ResourceType"], item.get("PhysicalResourceId", "")) for item in listed]


def _outputs(stack: dict[str, Any]) -> dict[str, str]:
    return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
