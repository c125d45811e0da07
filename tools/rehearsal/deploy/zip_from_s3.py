"""A zip whose artifact is in S3: deployed with SnapStart, called, destroyed, and deployed again.

The destroy retains the bucket, and the second deploy imports it as docs/operations.md says.
"""

from pathlib import Path
from typing import Any

import tomlkit

from stacks.names import artifact_bucket_name
from tools.rehearsal.deploy.cdk import Cdk, check_success
from tools.rehearsal.deploy.deployed import Outputs, read_outputs
from tools.rehearsal.deploy.zip_calls import check_vectors
from tools.rehearsal.image.report import Report

__all__ = ["check_zip_from_s3"]

_SUBJECT = "zip, artifact in S3"
_BY = "scripts/deploy; the services' APIs"


def check_zip_from_s3(report: Report, cdk: Cdk, beside: Outputs) -> None:
    """Deploy, call, destroy, import and destroy the environment, whose file names a zip.

    Args:
        report: The report of the checks.
        cdk: Runs the commands for the environment, which is not deployed.
        beside: The stacks of another environment, whose function is an image of the same model.
    """
    _set_artifact_in_s3(cdk.checkout.file)
    with report.step("scripts/deploy of a zip whose artifact is in S3, with SnapStart"):
        done = cdk.deploy()
    if not check_success(report, "scripts/deploy of an artifact in S3", done):
        return
    with report.step("checking its environment, and calling its endpoint"):
        _check(report, cdk, beside)
    uploaded = _artifacts(cdk)
    with report.step("scripts/destroy of its environment, which retains the bucket"):
        destroyed = cdk.destroy(cdk.assembly)
    if not check_success(report, "scripts/destroy of an artifact in S3", destroyed):
        return
    _check_refusal(report, cdk)
    _set_place(cdk.checkout.file, account=cdk.aws.account, region=cdk.aws.region)
    with report.step("scripts/deploy, which imports the bucket"):
        done = cdk.deploy(options=["--import-existing-resources"])
    if not check_success(report, "scripts/deploy with the retained bucket", done):
        return
    with report.step("checking the imported bucket, and calling the endpoint"):
        _check(report, cdk, beside)
        report.check(
            _SUBJECT,
            "the second deploy uses the retained artifact and uploads no other",
            _artifacts(cdk) == uploaded,
            by="S3",
            found=[key for key, _ in _artifacts(cdk)],
        )
    with report.step("deleting the artifact, and scripts/deploy again"):
        _check_lost_artifact(report, cdk)
    with report.step("scripts/destroy of its environment"):
        destroyed = cdk.destroy(cdk.assembly)
    check_success(report, "scripts/destroy of an imported artifact", destroyed)
    # The checks at the end find what this environment leaves.
    s3, bucket = cdk.aws.client("s3"), _bucket(cdk)
    for item in s3.list_objects_v2(Bucket=bucket)["Contents"]:
        s3.delete_object(Bucket=bucket, Key=item["Key"])
    s3.delete_bucket(Bucket=bucket)


def _set_artifact_in_s3(file: Path) -> None:
    document = tomlkit.parse(file.read_text())
    function: Any = document["function"]
    function["artifact"] = "s3"
    document["cold_start"] = tomlkit.item({"kind": "snapstart"})
    file.write_text(tomlkit.dumps(document))


def _set_place(file: Path, *, account: str, region: str) -> None:
    """Write the account and the region at the top: TOML's tables go to the end of the file."""
    document = tomlkit.parse(file.read_text())
    for name in ("account", "region"):
        document.pop(name, None)
    file.write_text(f'account = "{account}"\nregion = "{region}"\n{tomlkit.dumps(document)}')


def _check(report: Report, cdk: Cdk, beside: Outputs) -> None:
    deployed = read_outputs(cdk.aws, cdk.checkout.environment)
    function = deployed["AliasArn"].rpartition(":")[0]
    found = cdk.aws.client("lambda").get_function(FunctionName=function, Qualifier="live")
    location = found["Configuration"]["Environment"]["Variables"]["EMBEDDING_ARTIFACT_LOCATION"]
    objects = [f"s3://{_bucket(cdk)}/{key}" for key, _ in _artifacts(cdk)]
    check = "the version downloads the only artifact in the environment's own bucket"
    report.check(_SUBJECT, check, objects == [location], by=_BY, found=location)
    check_vectors(report, cdk.aws, deployed, beside, subject=_SUBJECT)


def _check_refusal(report: Report, cdk: Cdk) -> None:
    """Deploy without importing the bucket, which must change nothing."""
    with report.step("scripts/deploy, without importing the retained bucket"):
        refused = cdk.deploy()
    report.check(
        _SUBJECT,
        "a retained bucket is named, with what to do, before anything is deployed",
        refused.status != 0
        and refused.count(f"the bucket {_bucket(cdk)} exists and belongs to no stack") == 1
        and refused.count("--import-existing-resources") == 1
        and not refused.count("Synthesis time"),
        by="scripts/deploy",
        found=refused.tail(1),
    )


def _check_lost_artifact(report: Report, cdk: Cdk) -> None:
    """Delete the artifact, and let the next deploy upload it again."""
    ((key, _),) = _artifacts(cdk)
    cdk.aws.client("s3").delete_object(Bucket=_bucket(cdk), Key=key)
    deployed = cdk.deploy(cdk.assembly)
    found = [key for key, _ in _artifacts(cdk)]
    report.check(
        _SUBJECT,
        "the next deploy uploads a deleted artifact again",
        deployed.status == 0 and found == [key],
        by="scripts/deploy",
        found=", ".join(found),
    )


def _artifacts(cdk: Cdk) -> list[tuple[str, object]]:
    """Return the key of each artifact in the bucket, and when it was written."""
    listed = cdk.aws.client("s3").list_objects_v2(Bucket=_bucket(cdk), Prefix="artifact/")
    return [(item["Key"], item["LastModified"]) for item in listed.get("Contents", [])]


def _bucket(cdk: Cdk) -> str:
    environment = cdk.checkout.environment
    return artifact_bucket_name(environment, account=cdk.aws.account, region=cdk.aws.region)
