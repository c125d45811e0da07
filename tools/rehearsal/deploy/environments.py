"""Other environments besides a deployed one: a zip, and one with all parts."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomlkit

from stacks.names import artifact_bucket_name
from tools.rehearsal.deploy.cdk import Cdk, Checkout, Finished, copy_checkout
from tools.rehearsal.deploy.docker_client import recorded_calls, write_client
from tools.rehearsal.deploy.emulator import ACCOUNT, REGION
from tools.rehearsal.deploy.endpoint_checks import ask, same_vector
from tools.rehearsal.deploy.leftovers import check_destroyed, list_resources

__all__ = ["check_all_parts", "check_zip_environment"]

#: Tables that need an image.
_OF_IMAGES = ("batch", "server", "index", "repository")
_BUCKET = artifact_bucket_name("zip", account=ACCOUNT, region=REGION)


def check_zip_environment(cdk: Cdk, url: str, *, root: Path, folder: Path) -> None:
    """Deploy a zip without Docker, with the artifact in it and then in S3, and destroy it.

    Args:
        cdk: Runs the commands for a deployed environment of the same model.
        url: Its Function URL.
        root: The repository.
        folder: A folder for the copy of the repository.
    """
    checkout = copy_checkout(root, folder / "zip-checkout", "zip")
    checkout.file.write_text(cdk.checkout.file.read_text())
    _edit(checkout, _OF_IMAGES, package="zip")
    of_zip = replace(cdk, checkout=checkout, docker=write_client(folder / "no-docker", cdk.aws))
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
    found = [answer.status_code for pair in answers for answer in pair]
    cdk.report.check(check, all(same_vector(*pair) for pair in answers), found)


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
    """Deploy an environment with all parts, and destroy it with their tables in the file.

    Args:
        cdk: Runs the commands for another environment.
        parts: The settings of the parts, by table.
        root: The repository.
        folder: A folder for the copy of the repository.
    """
    checkout = copy_checkout(root, folder / "parts-checkout", "parts")
    checkout.file.write_text(cdk.checkout.file.read_text())
    _edit(checkout, ("index", "release", "cold_start", "experiment"))
    with checkout.edit() as document:
        for table, settings in parts.items():
            document[table] = tomlkit.item(dict(settings))
    before, with_parts = list_resources(cdk.aws), replace(cdk, checkout=checkout)
    with_parts.succeeded(with_parts.deploy("with all parts"))
    with_parts.succeeded(with_parts.destroy("with all parts in the file"))
    check_destroyed(with_parts, before)
