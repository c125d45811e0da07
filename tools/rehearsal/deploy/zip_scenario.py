"""A second environment whose function is a zip: deployed without Docker, called and destroyed.

It is deployed with the artifact in the zip, and again with the artifact in S3.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomlkit

from tools.rehearsal.deploy.cdk import Cdk, check_success
from tools.rehearsal.deploy.checkout import Checkout, copy_checkout
from tools.rehearsal.deploy.deployed import Outputs, read_outputs
from tools.rehearsal.deploy.docker_client import write_client
from tools.rehearsal.deploy.zip_calls import check_vectors
from tools.rehearsal.deploy.zip_from_s3 import check_zip_from_s3
from tools.rehearsal.image.report import Report
from tools.rehearsal.image.zip_checks import check_zip

__all__ = ["check_zip_environment"]

_NAME = "zip"
#: Tables that need an image.
_OF_IMAGES = ("batch", "server", "index", "repository")
_BY = "scripts/deploy; the services' APIs"


def check_zip_environment(
    report: Report, cdk: Cdk, beside: Outputs, *, root: Path, folder: Path
) -> None:
    """Deploy, check, call and destroy the environment, beside a deployed one.

    Args:
        report: The report of the checks.
        cdk: Runs the commands for the environment beside it.
        beside: The stacks of that environment, whose function is an image of the same model.
        root: The repository.
        folder: A folder for the copy of the repository.
    """
    checkout = copy_checkout(root, folder / "zip-checkout", _NAME)
    _write_settings(checkout, cdk.checkout.file.read_text(), package="zip")
    (folder / "no-docker").mkdir()
    docker = write_client(
        folder / "no-docker", registry=cdk.aws.registry, local="", docker=None, variables={}
    )
    of_zip = replace(cdk, checkout=checkout, docker=docker)
    with report.step("scripts/deploy of an environment whose function is a zip"):
        done = of_zip.deploy()
    if not check_success(report, "scripts/deploy of a zip", done):
        return
    report.check(
        "zip",
        "its deploy calls no Docker",
        not docker.with_suffix(".jsonl").exists(),
        by="the program that the CLI runs as docker",
    )
    deployed = read_outputs(of_zip.aws, _NAME)
    with report.step("checking the deployed zip"):
        _check_published(report, of_zip, deployed)
    with report.step("calling the zip's endpoint, and the one beside it"):
        check_vectors(report, of_zip.aws, deployed, beside, subject="zip")
    _check_refusal(report, of_zip)
    _write_settings(checkout, cdk.checkout.file.read_text(), package="zip")
    with report.step("scripts/destroy of the zip's environment"):
        destroyed = of_zip.destroy(of_zip.assembly)
    if check_success(report, "scripts/destroy of a zip", destroyed):
        check_zip_from_s3(report, of_zip, beside)


def _write_settings(checkout: Checkout, written: str, *, package: str) -> None:
    document = tomlkit.parse(written)
    for table in _OF_IMAGES:
        document.pop(table, None)
    document["termination_protection"] = False
    function: Any = document.setdefault("function", tomlkit.table())
    function["package"] = package
    checkout.file.write_text(tomlkit.dumps(document))


def _check_published(report: Report, cdk: Cdk, deployed: Outputs) -> None:
    """Check that the environment has no repository, and check the zip's content."""
    listed = cdk.aws.client("ecr").describe_repositories()["repositories"]
    repositories = [item["repositoryName"] for item in listed if _NAME in item["repositoryName"]]
    check = "its environment has no repository"
    report.check("zip", check, not repositories, by=_BY, found=", ".join(repositories))
    with tempfile.TemporaryDirectory() as name:
        archive = Path(name, "function.zip")
        archive.write_bytes(cdk.aws.code_of(deployed["AliasArn"].rpartition(":")[0]))
        check_zip(report, archive)


def _check_refusal(report: Report, cdk: Cdk) -> None:
    """Change the package of the deployed environment, which must change nothing."""
    _write_settings(cdk.checkout, cdk.checkout.file.read_text(), package="image")
    with report.step("scripts/deploy, with another package than the deployed one"):
        refused = cdk.deploy()
    report.check(
        "zip",
        "a change of the package is refused before anything is deployed",
        refused.status != 0
        and refused.count("AWS changes no function from zip to image") == 1
        and not refused.count("Synthesis time"),
        by="scripts/deploy",
        found=refused.tail(1),
    )
