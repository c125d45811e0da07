"""Run each deployed function with the code of its image or zip.

The versions of the embedder, the release check and the function of batch jobs run in AWS's runtime
on this machine: from the folder that the image is built from, or from the code and the artifact in
the deployed zip, with the variables and the role of the deployed function. Their own metrics and
Lambda's metrics are published to the emulated AWS.

For another vector space, an image with full precision serves the same vectors under another name:
compiling the real ones would take half a minute.
"""

import io
import json
import tempfile
import threading
import time
import zipfile
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedder.core.artifact import manifest_checksum
from tools.local_endpoint.runtime import Function, FunctionError, Runtime, start
from tools.rehearsal.deploy.emulator import Credentials, Emulator
from tools.rehearsal.deploy.function import Invocation
from tools.rehearsal.deploy.metrics_log import MetricsLog, count_invocation
from tools.rehearsal.deploy.provider_framework import HANDLER, relay
from tools.rehearsal.image.asset import ImageAsset, image_assets

__all__ = ["DeployedFunctions", "rename_space"]

_EMBEDDER = "embedder.aws_lambda.handler.handler"
_BATCH = "jobs.embed.handler.handler"
#: What runs here of a zip: the code, the model and its index.
_OF_ZIP = ("artifact/", "embedder/", "index/", "jobs/")
#: The number of embedder processes: the serving version, the new version, and one more.
_KEPT = 3


@dataclass(frozen=True, kw_only=True)
class _Code:
    """The code of a deployed function: its folder and what names it, handler and configuration."""

    folder: Path
    hash: str
    handler: str
    configuration: dict[str, Any]

    @property
    def key(self) -> str:
        variables = self.configuration.get("Environment", {}).get("Variables", {})
        name = self.configuration["FunctionName"], self.configuration["Version"]
        return json.dumps([*name, self.hash, variables], sort_keys=True)


class DeployedFunctions:
    """Answers the events of every deployed function.

    Attributes:
        checks: The events of the release check.
        description: The name of the runtime that runs the code.
    """

    def __init__(self, aws: Emulator, artifacts: dict[str, Path], assembly: Path) -> None:
        """Initialize without starting a function.

        Args:
            aws: The emulated AWS, which has the functions' configurations.
            artifacts: The compiled model by precision.
            assembly: The folder in which the CLI synthesizes.
        """
        self.checks: list[dict[str, Any]] = []
        self.description = ""
        self._aws, self._artifacts, self._assembly = aws, artifacts, assembly
        self._assets: dict[str, ImageAsset] = {}
        self._running: OrderedDict[str, Runtime] = OrderedDict()
        self._lock = threading.Lock()
        self._unpacked = tempfile.TemporaryDirectory(prefix="zips-")
        self._batch: Runtime | None = None
        self._batch_lock = threading.Lock()
        # A runtime ends with the thread that started it, so one thread starts all of them.
        self._starter = ThreadPoolExecutor(1)

    @property
    def artifact(self) -> Path:
        """The folder of the model that is deployed first."""
        return self._artifacts["int8"]

    def learn(self, assembly: Path) -> None:
        """Read which folders the images of an assembly are built from."""
        for asset in image_assets(assembly):
            link = asset.context / "artifact"
            if not link.is_symlink():
                link.symlink_to(self._artifacts[asset.arguments.get("PRECISION", "int8")])
            self._assets[asset.hash] = asset

    def answer(self, invocation: Invocation) -> bytes:
        """Return the deployed function's answer to an event.

        Raises:
            FunctionError: The function raised an error, or cannot run.
        """
        found = self._aws.client("lambda").get_function(
            FunctionName=invocation.function, Qualifier=invocation.version
        )
        configuration = found["Configuration"]
        event = json.loads(invocation.event)
        if configuration.get("Handler") == HANDLER:
            relay(event, self._as_role(invocation), _handler_of(configuration))
            return b"null"
        if configuration.get("PackageType") == "Zip":
            code = self._code_of_zip(configuration, invocation)
        else:
            code = self._code(configuration, found.get("Code", {}).get("ImageUri", ""))
        if code.handler == _BATCH:
            return self._embed_shard(code, invocation)
        if code.handler != _EMBEDDER:
            # A Delete removes the check and checks no version.
            self.checks += [event] if event.get("RequestType") != "Delete" else []
            return self._check(code, invocation)
        return self._serve(code, invocation)

    def close(self) -> None:
        """Stop every process."""
        for runtime in self._running.values():
            runtime.close()
        self._running.clear()
        if self._batch is not None:
            self._batch.close()
        self._starter.shutdown()
        self._unpacked.cleanup()

    def _code(self, configuration: dict[str, Any], uri: str) -> _Code:
        image = configuration.get("ImageConfigResponse", {}).get("ImageConfig", {})
        image = image or configuration.get("ImageConfig", {})
        names = self._tags(uri) if "@" in uri else [uri.rpartition(":")[2]]
        if self._assets.keys().isdisjoint(names) and self._assembly.is_dir():
            self.learn(self._assembly)
        asset = next((self._assets[name] for name in names if name in self._assets), None)
        if asset is None:
            raise FunctionError(f"no image {uri}")
        (handler,) = image.get("Command") or [_EMBEDDER]
        return _Code(
            folder=asset.context, hash=asset.hash, handler=handler, configuration=configuration
        )

    def _tags(self, uri: str) -> list[str]:
        """Return the tags of a promoted image, of which the first repository's names its folder."""
        ecr, digest = self._aws.client("ecr"), uri.partition("@")[2]
        return [
            tag
            for repository in ecr.describe_repositories()["repositories"]
            for image in ecr.describe_images(repositoryName=repository["repositoryName"])[
                "imageDetails"
            ]
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
                    # The packages are for another processor: this machine has the same ones.
                    names = archive.namelist()
                    archive.extractall(folder, [n for n in names if n.startswith(_OF_ZIP)])
        return _Code(
            folder=folder,
            hash=digest,
            handler=configuration["Handler"],
            configuration=configuration,
        )

    def _check(self, code: _Code, invocation: Invocation) -> bytes:
        runtime = self._start(code, invocation)
        try:
            return runtime.invoke(invocation.event)
        finally:
            runtime.close()

    def _embed_shard(self, code: _Code, invocation: Invocation) -> bytes:
        # Like AWS, the runtime answers one event at a time. One process is enough for a short job.
        with self._batch_lock:
            if self._batch is None:
                self._batch = self._start(code, invocation)
            return self._batch.invoke(invocation.event)

    def _serve(self, code: _Code, invocation: Invocation) -> bytes:
        with self._lock:
            runtime = self._running.pop(code.key, None) or self._start(code, invocation)
            self._running[code.key] = runtime
            if len(self._running) > _KEPT:
                self._running.popitem(last=False)[1].close()
        started, status = time.perf_counter(), 502
        try:
            result = runtime.invoke(invocation.event)
            status = int(json.loads(result)["statusCode"])
            return result
        finally:
            count_invocation(
                self._aws,
                invocation,
                status=status,
                milliseconds=1000 * (time.perf_counter() - started),
            )

    def _start(self, code: _Code, invocation: Invocation) -> Runtime:
        configuration = code.configuration
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
        runtime = self._starter.submit(start, function, logs=MetricsLog(self._aws)).result()
        self.description = runtime.description
        return runtime

    def _as_role(self, invocation: Invocation) -> Any:
        given = invocation.credentials
        who = Credentials(
            key=given["AWS_ACCESS_KEY_ID"],
            secret=given["AWS_SECRET_ACCESS_KEY"],
            token=given["AWS_SESSION_TOKEN"],
        )
        return self._aws.client("lambda", who)


def _handler_of(configuration: dict[str, Any]) -> str:
    return str(configuration["Environment"]["Variables"]["USER_ON_EVENT_FUNCTION_ARN"])


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
