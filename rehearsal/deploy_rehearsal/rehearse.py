"""The rehearsal of a deploy, from bootstrap to destroy, in the order in which a user does it."""

import json
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from deploy_rehearsal.callers import CALLER, STRANGER, check_answers, check_publishing, make_role
from deploy_rehearsal.cdk import Cdk, Finished
from deploy_rehearsal.checkout import Checkout, copy_checkout
from deploy_rehearsal.deployed_functions import DeployedFunctions, rename_space
from deploy_rehearsal.docker_client import write_client
from deploy_rehearsal.emulator import Emulator, emulator
from deploy_rehearsal.environment_checks import check_environment
from deploy_rehearsal.function import FunctionServer, function_server
from deploy_rehearsal.left_over import check_left_over
from deploy_rehearsal.release_scenarios import VARIANTS, Scenarios
from deploy_rehearsal.resources import check_resources
from deploy_rehearsal.standing import Standing, read_standing
from deploy_rehearsal.unproven import tell_unproven
from deploy_rehearsal.variants import synthesize_variants
from embedding_kit.environment import load_environment
from image_rehearsal.asset import ImageAsset, certificates, image_assets, synthesize
from image_rehearsal.base_image import ensure_bases
from image_rehearsal.docker import ContainersUnavailableError, Docker, containers
from image_rehearsal.report import Report
from local_function_url.models import artifact_of

__all__ = ["rehearse"]


def rehearse(root: Path, environment: str, *, require_containers: bool) -> Report:
    """Deploy, check, call, change, compare and destroy an environment.

    Args:
        root: The repository.
        environment: The environment's name.
        require_containers: Whether it is a failure that containers cannot run here.
    """
    report = Report(title=f"The deploy of the environment {environment}, rehearsed on this machine")
    with tempfile.TemporaryDirectory(prefix="rehearse-") as name, ExitStack() as stack:
        folder = Path(name)
        checkout = copy_checkout(root, folder / "checkout", environment)
        checkout.serve_without_a_hub()
        function = stack.enter_context(function_server())
        with report.step("starting the emulated AWS"):
            (folder / "aws").mkdir()
            aws = stack.enter_context(emulator(folder / "aws", function_url=function.url))
        checkout.let_call(make_role(aws, CALLER))
        make_role(aws, STRANGER)
        with report.step("synthesizing the stacks"):
            assembly = synthesize(checkout.root, environment, folder / "cdk.out")
        asset = image_assets(assembly)[0]
        docker = _docker(report, stack, root, asset, require_containers=require_containers)
        _tell(report, checkout, docker)
        functions = _functions(stack, aws, checkout, folder)
        function.serve(functions.answer)
        cdk = Cdk(checkout=checkout, aws=aws, docker=_client(aws, docker, asset, folder))
        record = folder / "docker.jsonl" if docker else None
        variants = _variants(stack, root, checkout, folder)
        standing = _run(report, cdk, assembly, function, record=record)
        if standing:
            _unprotect(report, cdk)
            (folder / "empty").mkdir()
            empty = _client(aws, None, asset, folder / "empty")
            Scenarios(
                report=report,
                cdk=replace(cdk, docker=empty),
                standing=standing,
                functions=functions,
                assemblies=variants,
            ).run()
            _destroy(report, cdk, standing)
            report.note(
                f"Behind the functions ran the code of each image in {functions.description} on "
                "this machine, with the variables, memory, timeout and role of the deployed "
                "function; the image itself is run by scripts/verify-image."
            )
        if docker and record:
            _remove_images(docker, aws, record)
    tell_unproven(report)
    return report


def _docker(
    report: Report, stack: ExitStack, root: Path, asset: ImageAsset, *, require_containers: bool
) -> Docker | None:
    try:
        docker = stack.enter_context(containers(root / ".cache" / "docker"))
        with report.step("getting the base images"):
            ensure_bases(docker, asset)
        # The CLI builds no image that the daemon has under the asset's name; the layers stay.
        docker.succeeds("image", "rm", asset.tag)
    except ContainersUnavailableError as error:
        if require_containers:
            report.check("containers", "run on this machine", False, by="Docker", found=error)
        report.note(str(error))
        report.unproven(
            "image",
            "is built by the CLI and pushed to the repository",
            instead="an empty image was pushed under its tag",
        )
        return None
    return docker


def _remove_images(docker: Docker, aws: Emulator, record: Path) -> None:
    """Leave no image behind that only the rehearsal named."""
    asked = [json.loads(line)["arguments"] for line in record.read_text().splitlines()]
    ecr = f"{aws.account}.dkr.ecr.{aws.region}.amazonaws.com"
    pushed = {
        words[-1].replace(ecr, f"localhost:{aws.port}") for words in asked if words[0] == "push"
    }
    built = {words[words.index("--tag") + 1] for words in asked if words[0] == "build"}
    for name in sorted(pushed | built):
        docker.succeeds("image", "rm", name)


def _client(aws: Emulator, docker: Docker | None, asset: ImageAsset, folder: Path) -> Path:
    return write_client(
        folder,
        registry=f"{aws.account}.dkr.ecr.{aws.region}.amazonaws.com",
        local=f"localhost:{aws.port}",
        docker=[docker.client, *certificates(asset)] if docker else None,
        variables=docker.environment if docker else {},
    )


def _tell(report: Report, checkout: Checkout, docker: Docker | None) -> None:
    for change in checkout.changes:
        report.note(f"Changed for the rehearsal: {change}.")
    report.note("The templates go to the emulated AWS as they are: none was transformed.")
    if docker:
        report.note(
            "The CLI's docker is the real one; ECR's address was led to the emulated registry."
        )


def _run(
    report: Report,
    cdk: Cdk,
    assembly: Path,
    function: FunctionServer,
    *,
    record: Path | None,
) -> Standing | None:
    """Bootstrap, deploy, check, call, change; return what was made, or None where that failed."""
    with report.step("cdk bootstrap"):
        _ended(report, "cdk bootstrap", cdk.bootstrap())
    with report.step("scripts/deploy, the first time"):
        if not _ended(report, "scripts/deploy", cdk.deploy()):
            return None
    if record is not None:
        _check_build(report, assembly, record)
    standing = read_standing(assembly, cdk.aws)
    environment = load_environment(cdk.checkout.environment, folder=cdk.checkout.file.parent)
    with report.step("reading back what stands"):
        check_environment(report, cdk.aws, standing, environment)
        check_resources(report, cdk.aws, standing)
        check_publishing(report, cdk.aws, str(standing.one("AWS::ECR::Repository").physical_id))
    with report.step("calling the endpoint"):
        _call(report, cdk, standing, function)
    with report.step("cdk diff, with nothing changed"):
        same = cdk.diff()
        told = "finds nothing to change after a deploy"
        report.check("cdk diff", told, same.status == 0, by="the CLI", found=_tail(same, 2))
    _change(report, cdk, standing)
    return standing


def _functions(
    stack: ExitStack, aws: Emulator, checkout: Checkout, folder: Path
) -> DeployedFunctions:
    environment = load_environment(checkout.environment, folder=checkout.file.parent)
    artifact = artifact_of(environment.model.name)
    artifacts = {"int8": artifact, "fp32": rename_space(artifact, folder / "renamed")}
    functions = DeployedFunctions(aws, artifacts, checkout.root / "cdk.out")
    stack.callback(functions.close)
    return functions


def _variants(stack: ExitStack, root: Path, checkout: Checkout, folder: Path) -> Path:
    """Start to synthesize the scenarios' variants, in a copy of the repository of their own."""
    copy = copy_checkout(root, folder / "variants-checkout", checkout.environment)
    copy.file.write_text(checkout.file.read_text())
    if load_environment(copy.environment, folder=copy.file.parent).protect:
        copy.unprotect()
    process = synthesize_variants(copy, VARIANTS, folder / "variants")
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return folder / "variants"


def _unprotect(report: Report, cdk: Cdk) -> None:
    environment = load_environment(cdk.checkout.environment, folder=cdk.checkout.file.parent)
    if not environment.protect:
        return
    with report.step("scripts/destroy, of a protected environment"):
        refused = cdk.destroy()
    told = "refuses while the file says protect = true"
    ok = refused.status != 0 and refused.count("termination protection") == 1
    report.check("scripts/destroy", told, ok, by="what it says", found=_tail(refused, 2))
    cdk.checkout.unprotect()
    with report.step("scripts/deploy, without protection"):
        _ended(report, "scripts/deploy without protection", cdk.deploy())


def _destroy(report: Report, cdk: Cdk, standing: Standing) -> None:
    environment = load_environment(cdk.checkout.environment, folder=cdk.checkout.file.parent)
    with report.step("scripts/destroy"):
        done = cdk.destroy()
    if _ended(report, "scripts/destroy", done):
        check_left_over(report, cdk.aws, environment)


def _check_build(report: Report, assembly: Path, record: Path) -> None:
    """Compare what the CLI asked of docker with what `scripts/verify-image` builds by."""
    asked = [json.loads(line)["arguments"] for line in record.read_text().splitlines()]
    by = "what the CLI asked of docker"
    built = [words for words in asked if words[0] == "build"]
    ours = [asset.command for asset in image_assets(assembly)]
    report.check(
        "image",
        "the CLI builds it by the words that scripts/verify-image builds by",
        sorted(built) == sorted(ours),
        by=by,
        found=" ".join(built[0]) if built else "no build",
    )
    pushed = [words[-1].rpartition("/")[2] for words in asked if words[0] == "push"]
    report.check("image", "the CLI pushes it", bool(pushed), by=by, found=", ".join(pushed))


def _call(report: Report, cdk: Cdk, standing: Standing, function: FunctionServer) -> None:
    caller, stranger = (
        cdk.aws.assume(f"arn:aws:iam::{cdk.aws.account}:role/{name}") for name in (CALLER, STRANGER)
    )
    check_answers(report, cdk.aws, standing, caller=caller, stranger=stranger)
    report.check(
        "endpoint",
        "refused requests never reach the function",
        function.events == 1,
        by="the process behind the URL",
        found=f"{function.events} events",
    )


def _change(report: Report, cdk: Cdk, before: Standing) -> None:
    ran = _read_running(cdk.aws, before)
    cdk.checkout.change_code()
    with report.step("cdk diff, with the code changed"):
        changed = cdk.diff()
        gone = changed.count(r"(?m)^\[-\] AWS::(?!Lambda::Version)")
        holds = changed.status == 1 and not gone
        told = "finds the change of code, and no resource that goes but the old version's"
        report.check("cdk diff", told, holds, by="the CLI", found="" if holds else _tail(changed))
    with report.step("scripts/deploy, with the code changed"):
        if not _ended(report, "scripts/deploy again", cdk.deploy()):
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
        "the old version is still there to go back to",
        ran.version in runs.versions,
        by=by,
        found=f"versions {sorted(runs.versions)}",
    )


@dataclass(frozen=True, kw_only=True)
class _Running:
    """What the alias runs: its version, that version's image, its URL, and all versions."""

    version: int
    image: str
    url: str
    versions: frozenset[int]


def _read_running(aws: Emulator, standing: Standing) -> _Running:
    client = aws.client("lambda")
    function, _, alias = standing.outputs["AliasArn"].rpartition(":")
    version = client.get_alias(FunctionName=function, Name=alias)["FunctionVersion"]
    listed = client.list_versions_by_function(FunctionName=function)["Versions"]
    return _Running(
        version=int(version),
        image=client.get_function(FunctionName=function, Qualifier=version)["Code"]["ImageUri"],
        url=client.get_function_url_config(FunctionName=function, Qualifier=alias)["FunctionUrl"],
        versions=frozenset(int(v["Version"]) for v in listed if v["Version"] != "$LATEST"),
    )


def _tail(done: Finished, lines: int = 12) -> str:
    return " / ".join(line.strip() for line in done.output.splitlines()[-lines:] if line.strip())


def _ended(report: Report, command: str, done: Finished) -> bool:
    if done.status:
        print(done.output[-8000:], file=sys.stderr)
    found = f"{done.seconds:.0f} s" if done.status == 0 else f"status {done.status}"
    return report.check(command, "succeeds", done.status == 0, by="the pinned CDK CLI", found=found)
