"""Other environments besides a deployed one: a zip, all parts in a strict account, a proof."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tomlkit
from botocore.credentials import Credentials

from embedding_client import EmbeddingClient, ForbiddenError, SigV4Auth
from stacks.environment_file import load_environment
from stacks.key_policy import needed_statements
from stacks.names import artifact_bucket_name
from tools.process import running
from tools.rehearsal.deploy.cdk import Cdk, Checkout, Finished, copy_checkout
from tools.rehearsal.deploy.checks import (
    CALLER,
    STRANGER,
    ask,
    check_destroyed,
    list_resources,
    same_vector,
)
from tools.rehearsal.deploy.docker_client import recorded_calls, write_client
from tools.rehearsal.deploy.emulator import ACCOUNT, REGION
from tools.rehearsal.report import StoppedError

#: Tables that need an image.
_OF_IMAGES = ("batch", "server", "index", "repository")
_BUCKET = artifact_bucket_name("zip", account=ACCOUNT, region=REGION)
_PLACE = {"partition": "aws", "region": REGION, "account": ACCOUNT}


def _copy(cdk: Cdk, name: str, root: Path, folder: Path) -> Cdk:
    """Return the commands of another environment, in a checkout with the first one's settings."""
    checkout = copy_checkout(root, folder / f"{name}-checkout", name)
    checkout.file.write_text(cdk.checkout.file.read_text())
    return replace(cdk, checkout=checkout)


def check_zip_environment(cdk: Cdk, url: str, *, root: Path, folder: Path) -> None:
    """Deploy a zip without Docker, with the artifact in it and then in S3, and destroy it."""
    of_zip = replace(_copy(cdk, "zip", root, folder), docker=write_client(folder / "none", cdk.aws))
    checkout = of_zip.checkout
    _edit(checkout, _OF_IMAGES, package="zip")
    of_zip.succeeded(of_zip.deploy("with the model in the zip"))
    calls = recorded_calls(of_zip.docker)
    of_zip.report.check("it calls no Docker", not calls, calls)
    _check_vectors(of_zip, url)
    _edit(checkout, (), package="image")
    refused = of_zip.deploy("with an image instead of the zip")
    _check_refused(of_zip, refused, "AWS changes no function from zip to image")
    _edit(checkout, (), package="zip")
    of_zip.succeeded(of_zip.destroy("of the zip"))
    _check_artifact_in_s3(of_zip, url)


def _check_artifact_in_s3(cdk: Cdk, url: str) -> None:
    """Deploy it with SnapStart; the destroy retains the bucket, and the next deploy imports it."""
    _edit(cdk.checkout, (), artifact="s3")
    with cdk.checkout.edit() as document:
        document["cold_start"] = tomlkit.item({"kind": "snapstart"})
    cdk.succeeded(cdk.deploy("with SnapStart and the artifact in S3"))
    _check_vectors(cdk, url)
    uploaded = _artifacts(cdk)
    cdk.succeeded(cdk.destroy("which retains the bucket"))
    refused = cdk.deploy("without importing the bucket")
    _check_refused(cdk, refused, f"the bucket {_BUCKET} exists and belongs to no stack")
    # An import needs the account and the region in the file; TOML's tables go to its end.
    text = cdk.checkout.file.read_text()
    cdk.checkout.file.write_text(f'account = "{ACCOUNT}"\nregion = "{REGION}"\n{text}')
    cdk.succeeded(cdk.deploy("which imports the bucket", "--import-existing-resources"))
    _check_vectors(cdk, url)
    check = "it uses the retained artifact and uploads no other"
    cdk.report.check(check, len(uploaded) == 1 and _artifacts(cdk) == uploaded, uploaded)
    cdk.succeeded(cdk.destroy("of the zip with its artifact in S3"))
    # The checks at the end find what this environment leaves.
    s3 = cdk.aws.client("s3")
    for item in s3.list_objects_v2(Bucket=_BUCKET)["Contents"]:
        s3.delete_object(Bucket=_BUCKET, Key=item["Key"])
    s3.delete_bucket(Bucket=_BUCKET)


def _edit(checkout: Checkout, without: tuple[str, ...], **function: str) -> None:
    """Take tables out of an environment's file, and set settings of its function."""
    with checkout.edit() as document:
        for table in without:
            document.pop(table, None)
        document["termination_protection"] = False
        settings: Any = document.setdefault("function", tomlkit.table())
        settings.update(function)


def _check_vectors(cdk: Cdk, url: str) -> None:
    answers = [
        (ask(cdk.aws, cdk.outputs()["Url"], text), ask(cdk.aws, url, text))
        for text in ("hello, zip", "Wie spät ist es?")
    ]
    check = "the caller gets the vectors of the image, to the last bit"
    statuses = [answer.status_code for pair in answers for answer in pair]
    cdk.report.check(check, all(same_vector(*pair) for pair in answers), statuses)


def _check_refused(cdk: Cdk, refused: Finished, reason: str) -> None:
    holds = refused.status != 0 and not refused.count("Synthesis time")
    check = f"it is refused before anything is deployed: {reason}"
    cdk.report.check(check, holds and reason in refused.output, refused.last(reason))


def _artifacts(cdk: Cdk) -> dict[str, object]:
    """Return when each artifact in the bucket was written, by its key."""
    listed = cdk.aws.client("s3").list_objects_v2(Bucket=_BUCKET, Prefix="artifact/")
    return {item["Key"]: item["LastModified"] for item in listed.get("Contents", [])}


def check_all_parts(
    cdk: Cdk, parts: Mapping[str, Mapping[str, Any]], *, root: Path, folder: Path
) -> None:
    """Deploy and destroy an environment with all parts, and with its account's key and roles."""
    aws, with_parts = cdk.aws, _copy(cdk, "parts", root, folder)
    before, checkout = list_resources(aws), with_parts.checkout
    _edit(checkout, ("index", "release", "cold_start", "experiment", "repository"))
    key = aws.client("kms").create_key()["KeyMetadata"]["Arn"]
    everything = _policy([{"Effect": "Allow", "Action": "*", "Resource": "*"}])
    boundary = aws.client("iam").create_policy(
        PolicyName="rehearsal-boundary", PolicyDocument=everything
    )
    roles = {"path": "/team/", "permissions_boundary": boundary["Policy"]["Arn"]}
    with checkout.edit() as document:
        for table, settings in {**parts, "encryption": {"key": key}, "roles": roles}.items():
            document[table] = tomlkit.item(dict(settings))
        callers: Any = document["callers"]
        callers["invoke"] = True
    refused = with_parts.deploy("without what its account prescribes")
    _check_refused(with_parts, refused, f"the policy of the key {key} lacks a statement")
    environment = load_environment("parts", folder=checkout.file.parent)
    key_policy = _policy(needed_statements(environment, **_PLACE))
    aws.client("kms").put_key_policy(KeyId=key, PolicyName="default", Policy=key_policy)
    with_parts.succeeded(with_parts.deploy("with all parts, a key, and roles"))
    _check_invoke(with_parts)
    with_parts.succeeded(with_parts.destroy("with all parts in the file"))
    aws.client("kms").schedule_key_deletion(KeyId=key)
    check_destroyed(with_parts, before)


def _check_invoke(cdk: Cdk) -> None:
    """Call the alias by Lambda's Invoke as the caller and as another role."""
    aws, outputs, text = cdk.aws, cdk.outputs(), "hello, invoke"

    def embed(role: str, function: str) -> Any:
        auth = SigV4Auth(credentials=Credentials(*aws.assume(role)[:3]), region=REGION)
        with EmbeddingClient(
            function=function, endpoint_url=aws.url, region=REGION, auth=auth
        ) as client:
            try:
                return client.embed_one(text)
            except ForbiddenError:
                return None

    alias = outputs["AliasArn"]
    vector, by_url = embed(CALLER, alias), ask(aws, outputs["Url"], text).json()["embedding"]
    same = vector is not None and np.array_equal(vector, np.array(by_url, np.float32))
    cdk.report.check("the caller gets the same vector by Invoke, to the last bit", same)
    refused = embed(STRANGER, alias), embed(CALLER, f"{alias.rpartition(':')[0]}:1")
    check = "another role may not invoke the alias, and the caller no version by its number"
    cdk.report.check(check, refused == (None, None))


def _policy(statements: Sequence[Mapping[str, object]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


_PROGRAM = """
import sys
from tools.prove.__main__ import main
from tools.rehearsal.deploy.checks import ToEmulator
options = ["--starts", "2", "--pause", "0", "--no-doctor", "--yes"]
sys.exit(main([sys.argv[1], *options], transport=ToEmulator(int(sys.argv[2]))))
"""
_SECONDS = 600


def check_proof(cdk: Cdk, *, root: Path, folder: Path) -> None:
    """Measure an environment in two runs, of which the first is killed after its first step."""
    name = cdk.checkout.environment
    of_copy, before = _copy(cdk, name, root, folder / "proof"), list_resources(cdk.aws)
    checkout = of_copy.checkout
    command = [sys.executable, "-c", _PROGRAM, name, str(cdk.aws.port)]
    state = checkout.root / ".cache" / "prove" / f"{name}.json"

    def failed(reason: str) -> Exception:
        cdk.report.check("it measures until it is killed", False, reason)
        return StoppedError(reason)

    with (
        cdk.report.step("scripts/prove, killed after its first measurement"),
        running(
            command,
            ready=lambda: state.exists() and "memory 1769" in state.read_text(),
            seconds=_SECONDS,
            environment=of_copy.variables(),
            folder=checkout.root,
            failure=failed,
        ) as client,
    ):
        client.kill()
    cdk.report.need("it is killed while it measures", client.returncode < 0, client.returncode)
    done = of_copy.run(command, "scripts/prove, started again")
    of_copy.succeeded(done)
    check = "it continues with the next step"
    steps = [line.split(": ")[1] for line in done.output.splitlines() if "-prove: " in line]
    cdk.report.check(check, steps[-2:] == ["33%, memory 3538 ...", "67%, callers ..."], steps)
    measured = json.loads((checkout.root / "docs" / "measured-on-aws.json").read_text())[name]
    counts = [len(measured[f"memory {size}"]["init_ms"]) for size in (1769, 3538)]
    lengths = [len(measured[step]["requests"]) for step in ("memory 1769", "callers")]
    check = "it has measured two starts of each size, and requests of each length"
    cdk.report.check(check, counts == [2, 2] and lengths == [4, 4], (counts, lengths))
    files = [checkout.file.with_name(f"{name}-prove.toml"), state]
    gone = list_resources(cdk.aws) == before and not any(file.exists() for file in files)
    cdk.report.check("the environment is as before, and of the copy nothing is left", gone)
