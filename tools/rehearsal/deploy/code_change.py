"""Check a deploy with changed code: `cdk diff`, the URL, and the versions."""

from dataclasses import dataclass

from tools.rehearsal.deploy.cdk import Cdk, check_success
from tools.rehearsal.deploy.deployed import Outputs
from tools.rehearsal.deploy.emulator import Emulator
from tools.rehearsal.image.report import Report

__all__ = ["check_code_change"]


def check_code_change(report: Report, cdk: Cdk, before: Outputs) -> None:
    """Change the code, deploy, and compare the function with the one before."""
    ran = _read_running(cdk.aws, before)
    cdk.checkout.change_code()
    with report.step("cdk diff, with the code changed"):
        changed = cdk.diff()
        gone = changed.count(r"(?m)^\[-\] AWS::(?!Lambda::Version)")
        holds = changed.status == 1 and not gone
        check = "finds the change of code, and removes no resource except the old version's"
        report.check("cdk diff", check, holds, by="the CLI", found="" if holds else changed.tail())
    with report.step("scripts/deploy, with the code changed"):
        # With the assembly of the diff, which saves another synth.
        if not check_success(report, "scripts/deploy again", cdk.deploy(cdk.assembly)):
            return
    runs, by = _read_running(cdk.aws, before), "the services' APIs, before and after"
    report.check("second deploy", "the URL is the same", ran.url == runs.url, by=by, found=runs.url)
    report.check(
        "second deploy",
        "a new version runs another image, and the alias points to it",
        runs.version > ran.version and runs.image != ran.image,
        by=by,
        found=f"version {ran.version} to {runs.version}",
    )
    report.check(
        "second deploy",
        "the old version still exists",
        ran.version in runs.versions,
        by=by,
        found=f"versions {sorted(runs.versions)}",
    )


@dataclass(frozen=True, kw_only=True)
class _Running:
    """The alias's version, that version's image, the URL, and all versions."""

    version: int
    image: str
    url: str
    versions: frozenset[int]


def _read_running(aws: Emulator, deployed: Outputs) -> _Running:
    client = aws.client("lambda")
    function, _, alias = deployed["AliasArn"].rpartition(":")
    version = client.get_alias(FunctionName=function, Name=alias)["FunctionVersion"]
    listed = client.list_versions_by_function(FunctionName=function)["Versions"]
    return _Running(
        version=int(version),
        image=client.get_function(FunctionName=function, Qualifier=version)["Code"]["ImageUri"],
        url=client.get_function_url_config(FunctionName=function, Qualifier=alias)["FunctionUrl"],
        versions=frozenset(int(v["Version"]) for v in listed if v["Version"] != "$LATEST"),
    )
