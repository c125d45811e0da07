"""Run each deployed function with the code of its image or zip.

MiniStack posts the events of every function to one address. The function runs in AWS's runtime on
this machine: from the folder that its image is built from, or from the code and the artifact in the
deployed zip, with its variables and its role. Its own metrics and Lambda's metrics are published to
the emulated AWS.

For another vector space, an image with full precision serves the same vectors under another name:
compiling the real ones would take half a minute.
"""

import io
import json
import re
import shutil
import tempfile
import threading
import time
import urllib.request
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import ClientError

from embedder import core
from embedder.core.artifact import manifest_checksum
from embedding_kit.programs import contract
from tests.fixtures.local_server import QuietHandler, serving
from tools.local_endpoint.runtime import Function, FunctionError, Runtime, start
from tools.rehearsal.deploy.emulator import Emulator
from tools.rehearsal.image.asset import ImageAsset, image_assets


@dataclass(frozen=True, kw_only=True)
class Invocation:
    """An event for a function's version; its role's credentials are environment variables."""

    function: str
    version: str
    event: bytes
    credentials: Mapping[str, str]

    @property
    def through_url(self) -> bool:
        """Whether it came through a Function URL."""
        context: Any = json.loads(self.event).get("requestContext", {})
        return "domainName" in context


class FunctionServer:
    """Answers events at a URL by `serve`, which raises FunctionError for a function's error.

    `events` counts those that came through a Function URL.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.events = 0
        self.serve: Callable[[Invocation], bytes] = _no_function

    def answer(self, invocation: Invocation) -> bytes:
        """Return the function's result, or its error in Lambda's form."""
        self.events += invocation.through_url
        try:
            return self.serve(invocation)
        except FunctionError as error:
            # Only message and class are needed: the runtime's text has a long stack trace.
            error_message = re.search(r'"errorMessage": ?("(?:[^"\\]|\\.)*")', str(error))
            error_type = re.search(r'"errorType": ?"([\w.]+)"', str(error))
            message = json.loads(error_message[1]) if error_message else str(error)
            payload = {
                "errorMessage": message,
                "errorType": error_type[1] if error_type else "FunctionError",
            }
            log = "".join(getattr(error, "__notes__", []))
            return json.dumps({**payload, "log": log}).encode()


def _no_function(_: Invocation) -> bytes:
    raise FunctionError("no function runs yet")


@contextmanager
def function_server() -> Iterator[FunctionServer]:
    """Run the server until the block ends."""

    class _Handler(QuietHandler):
        def respond(self) -> None:
            invocation = Invocation(
                function=self.headers["X-Amzn-Lambda-Function-Name"],
                version=self.headers["X-Amzn-Lambda-Function-Version"],
                event=self.read_body(),
                credentials=dict(parse_qsl(urlsplit(self.path).query)),
            )
            self.answer(200, server.answer(invocation), Content_Type="application/json")

    with serving(_Handler) as url:
        server = FunctionServer(f"{url}/")
        yield server


#: The alias that callers reach through the Function URL.
_ALIAS = "live"


class MetricsLog(io.StringIO):
    """A log that publishes the metrics of its lines in embedded metric format.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
    """

    def __init__(self, aws: Emulator) -> None:
        super().__init__()
        self._aws = aws

    def write(self, line: str) -> int:
        """Publish the metrics of a line."""
        record = json.loads(line[line.index("{") :]) if '"_aws"' in line else {"_aws": {}}
        for directive in record["_aws"].get("CloudWatchMetrics", []):
            data = [
                _datum(metric["Name"], record[metric["Name"]], {n: record[n] for n in names})
                for names in directive["Dimensions"]
                for metric in directive["Metrics"]
            ]
            self._aws.client("cloudwatch").put_metric_data(
                Namespace=directive["Namespace"], MetricData=data
            )
        return len(line)


def count_invocation(
    aws: Emulator, invocation: Invocation, *, status: int, milliseconds: float
) -> None:
    """Publish Lambda's metrics of an invocation; the status is 502 if the function failed.

    https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html
    """
    values = {"Invocations": 1.0, "Errors": float(status == 502), "Duration": milliseconds}
    name, qualifier = {"FunctionName": invocation.function}, invocation.version
    if invocation.through_url:
        values |= {
            "UrlRequestCount": 1.0,
            "Url4xxCount": float(400 <= status < 500),
            "Url5xxCount": float(status >= 500),
        }
        qualifier = _ALIAS
    resource = name | {"Resource": f"{invocation.function}:{qualifier}"}
    resources = [name, resource]
    if invocation.through_url:
        resources.append(resource | {"ExecutedVersion": invocation.version})
    data = [
        _datum(metric, value, dimension_value)
        for metric, value in values.items()
        for dimension_value in resources
    ]
    aws.client("cloudwatch").put_metric_data(Namespace="AWS/Lambda", MetricData=data)


def _datum(metric: str, value: Any, dimensions: dict[str, Any]) -> dict[str, Any]:
    return {
        "MetricName": metric,
        "Values": [float(v) for v in (value if isinstance(value, list) else [value])],
        "Dimensions": [
            {"Name": key, "Value": str(dimension)} for key, dimension in dimensions.items()
        ],
    }


_EMBEDDER, _BATCH = contract().handlers["endpoint"], contract().handlers["embed"]
#: The handler of the CDK's provider framework, and the physical id after a Create that failed.
_FRAMEWORK = "framework.onEvent"
_CREATE_FAILED = "AWSCDK::CustomResourceProviderFramework::CREATE_FAILED"
#: What runs here of a zip: the code, the model and its index.
_OF_ZIP = ("artifact/", "embedder/", "index/", "jobs/")
#: The number of embedder processes: the serving version, the new version, and one more.
_KEPT = 3


@dataclass(frozen=True)
class _Code:
    """The code of a deployed function: its folder, what names its content, and its handler."""

    folder: Path
    hash: str
    handler: str


class DeployedFunctions:
    """Answers the events of every deployed function.

    `checks` are the events of the release check. The CLI synthesizes into `assembly`, and the
    artifacts have the compiled model by precision.
    """

    def __init__(self, aws: Emulator, artifacts: dict[str, Path], assembly: Path) -> None:
        self.checks: list[dict[str, Any]] = []
        self._aws, self._artifacts, self.assembly = aws, artifacts, assembly
        self._assets: dict[str, ImageAsset] = {}
        self._running: OrderedDict[str, Runtime] = OrderedDict()
        self._batch: Runtime | None = None
        self._lock, self._batch_lock = threading.Lock(), threading.Lock()
        self._unpacked = tempfile.TemporaryDirectory(prefix="functions-")
        # A process ends with the thread that has started it, so this thread starts all of them.
        self._starter = ThreadPoolExecutor(max_workers=1)

    def learn(self, assembly: Path) -> None:
        """Read which folders the images of an assembly are built from."""
        for asset in image_assets(assembly):
            link = asset.context / "artifact"
            if not link.is_symlink():
                choices = json.loads(asset.arguments["MODELS"])["model"]
                link.symlink_to(self._artifacts[choices.get("precision", "int8")])
            self._assets[asset.hash] = asset

    def answer(self, invocation: Invocation) -> bytes:
        """Return the deployed function's answer, or raise its error as FunctionError."""
        function = self._aws.client("lambda").get_function(
            FunctionName=invocation.function, Qualifier=invocation.version
        )
        configuration = function["Configuration"]
        event = json.loads(invocation.event)
        if configuration.get("Handler") == _FRAMEWORK:
            keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
            who = ReadOnlyCredentials(*(invocation.credentials[key] for key in keys))
            variables = configuration["Environment"]["Variables"]
            relay(event, self._aws.client("lambda", who), variables["USER_ON_EVENT_FUNCTION_ARN"])
            return b"null"
        if configuration.get("PackageType") == "Zip":
            code = self._code_of_zip(configuration, invocation)
        else:
            code = self._code_of_image(configuration, function.get("Code", {}).get("ImageUri", ""))
        if code.handler == _BATCH:
            # Like AWS, the runtime answers one event at a time. One process is enough for a job.
            with self._batch_lock:
                self._batch = self._batch or self._start(code, configuration, invocation)
                return self._batch.invoke(invocation.event)
        if code.handler == _EMBEDDER:
            return self._serve(code, configuration, invocation)
        # A Delete removes the release check and checks no version.
        self.checks += [event] if event.get("RequestType") != "Delete" else []
        with closing(self._start(code, configuration, invocation)) as runtime:
            return runtime.invoke(invocation.event)

    def close(self) -> None:
        """Stop every process."""
        for runtime in [*self._running.values(), *([self._batch] if self._batch else [])]:
            runtime.close()
        self._running.clear()
        self._starter.shutdown()
        self._unpacked.cleanup()

    def _code_of_image(self, configuration: dict[str, Any], uri: str) -> _Code:
        image = configuration.get("ImageConfigResponse", {}).get("ImageConfig", {})
        image = image or configuration.get("ImageConfig", {})
        names = self._tags(uri) if "@" in uri else [uri.rpartition(":")[2]]
        if self._assets.keys().isdisjoint(names) and self.assembly.is_dir():
            self.learn(self.assembly)
        asset = next((self._assets[name] for name in names if name in self._assets), None)
        if asset is None:
            raise FunctionError(f"no image {uri}")
        (handler,) = image.get("Command") or [_EMBEDDER]
        return _Code(asset.context, asset.hash, handler)

    def _tags(self, uri: str) -> list[str]:
        """Return the tags of a promoted image, of which the first repository's names its folder."""
        ecr, digest = self._aws.client("ecr"), uri.partition("@")[2]
        names = [
            repository["repositoryName"]
            for repository in ecr.describe_repositories()["repositories"]
        ]
        return [
            tag
            for name in names
            for image in ecr.describe_images(repositoryName=name)["imageDetails"]
            if image["imageDigest"] == digest
            for tag in image.get("imageTags", [])
        ]

    def _code_of_zip(self, configuration: dict[str, Any], invocation: Invocation) -> _Code:
        digest = configuration["CodeSha256"]
        folder = Path(self._unpacked.name, digest.replace("/", "_"))
        with self._lock:
            if not folder.is_dir():
                content = self._aws.code_of(invocation.function, invocation.version)
                with zipfile.ZipFile(io.BytesIO(content)) as archive:
                    # Packages and libraries are for another processor: this machine has the same.
                    names = archive.namelist()
                    archive.extractall(folder, [n for n in names if n.startswith(_OF_ZIP)])
                for library in Path(*core.__path__).glob("*.so"):
                    shutil.copy(library, folder / "embedder" / "core")
        return _Code(folder, digest, configuration["Handler"])

    def _serve(self, code: _Code, configuration: dict[str, Any], invocation: Invocation) -> bytes:
        variables = configuration.get("Environment", {}).get("Variables", {})
        named = [invocation.function, configuration["Version"], code.hash, variables]
        key = json.dumps(named, sort_keys=True)
        with self._lock:
            runtime = self._running.pop(key, None) or self._start(code, configuration, invocation)
            self._running[key] = runtime
            if len(self._running) > _KEPT:
                self._running.popitem(last=False)[1].close()
        began, status = time.perf_counter(), 502
        try:
            result = runtime.invoke(invocation.event)
            status = int(json.loads(result)["statusCode"])
            return result
        finally:
            duration = 1000 * (time.perf_counter() - began)
            count_invocation(self._aws, invocation, status=status, milliseconds=duration)

    def _start(self, code: _Code, configuration: dict[str, Any], invocation: Invocation) -> Runtime:
        function = Function(
            handler=code.handler,
            source_root=code.folder,
            environment={
                **configuration.get("Environment", {}).get("Variables", {}),
                **invocation.credentials,
                "AWS_DEFAULT_REGION": self._aws.region,
                "AWS_ENDPOINT_URL": self._aws.url,
                "AWS_ENDPOINT_URL_S3": self._aws.url,
                "AWS_REGION": self._aws.region,
                "TMPDIR": self._unpacked.name,
                "AWS_LAMBDA_FUNCTION_NAME": invocation.function,
                "AWS_LAMBDA_FUNCTION_VERSION": invocation.version,
                "EMBEDDING_ARTIFACT": str(code.folder / "artifact"),
            },
            memory=configuration["MemorySize"],
            timeout=configuration["Timeout"],
        )
        return self._starter.submit(start, function, logs=MetricsLog(self._aws)).result()


def rename_space(artifact: Path, folder: Path) -> Path:
    """Create an artifact with the same vectors and another vector space's name."""
    folder.mkdir()
    for file in artifact.iterdir():
        if file.name != "manifest.json":
            (folder / file.name).symlink_to(file)
    manifest = json.loads((artifact / "manifest.json").read_text())
    manifest["vector_space"] += "-renamed"
    del manifest["checksum"]
    manifest["checksum"] = manifest_checksum(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def relay(event: Mapping[str, Any], client: Any, handler: str) -> None:
    """Invoke a custom resource's handler, and send its answer to CloudFormation's response URL.

    The CDK's provider framework, by its documented contract: its own function is JavaScript and
    needs the AWS SDK of Lambda's runtime. See "Provider Framework" in
    https://docs.aws.amazon.com/cdk/api/v2/docs/aws-cdk-lib.custom_resources-readme.html
    """
    physical = event.get("PhysicalResourceId")
    response = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    if event["RequestType"] == "Delete" and physical == _CREATE_FAILED:
        response |= {"Status": "SUCCESS", "PhysicalResourceId": _CREATE_FAILED}
    else:
        try:
            payload = json.dumps({**event, "ResponseURL": "..."})
            invoked = client.invoke(FunctionName=handler, Payload=payload)
            answer = json.loads(invoked["Payload"].read()) or {}
            reason = str(answer.get("errorMessage")) if "FunctionError" in invoked else ""
        except ClientError as error:
            answer, reason = {}, str(error)
        if reason:
            resource_id = _CREATE_FAILED if event["RequestType"] == "Create" else physical
            response |= {"Status": "FAILED", "PhysicalResourceId": resource_id, "Reason": reason}
        else:
            resource_id = answer.get("PhysicalResourceId") or physical or event["RequestId"]
            response |= {"Status": "SUCCESS", "PhysicalResourceId": resource_id}
            response["Data"] = answer.get("Data", {})
    body = json.dumps(response).encode()
    request = urllib.request.Request(event["ResponseURL"], body, method="PUT")
    with urllib.request.urlopen(request, timeout=30):
        pass
