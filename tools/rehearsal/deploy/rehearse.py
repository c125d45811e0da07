"""Rehearse a deploy from bootstrap to destroy, in the order of a real one."""

import json
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from embedding_kit.environment_file import load_environment
from stacks.names import repository_name
from tools.local_endpoint.models import artifact_of
from tools.rehearsal.deploy.batch_scenario import BATCH_SETTINGS
from tools.rehearsal.deploy.callers import (
    CALLER,
    STRANGER,
    check_answers,
    check_publishing,
    make_role,
)
from tools.rehearsal.deploy.cdk import Cdk, check_success
from tools.rehearsal.deploy.checkout import Checkout, copy_checkout
from tools.rehearsal.deploy.code_change import check_code_change
from tools.rehearsal.deploy.deployed import Outputs, read_outputs
from tools.rehearsal.deploy.deployed_functions import DeployedFunctions, rename_space
from tools.rehearsal.deploy.destroyed_checks import Leftovers, check_destroyed, list_resources
from tools.rehearsal.deploy.docker_client import write_client
from tools.rehearsal.deploy.doctor_scenario import DoctorScenario, make_scenario
from tools.rehearsal.deploy.emulator import Emulator, emulator
from tools.rehearsal.deploy.front_scenario import FRONT_SETTINGS, set_log_role
from tools.rehearsal.deploy.function import FunctionServer, function_server
from tools.rehearsal.deploy.owned_scenario import check_owned_environment
from tools.rehearsal.deploy.release_scenarios import Scenarios
from tools.rehearsal.deploy.release_variants import release_variants
from tools.rehearsal.deploy.server_scenario import make_network
from tools.rehearsal.deploy.variants import Variant, synthesize_variants
from tools.rehearsal.deploy.zip_scenario import check_zip_environment
from tools.rehearsal.image.asset import ImageAsset, certificates, image_assets, synthesize
from tools.rehearsal.image.base_image import ensure_bases
from tools.rehearsal.image.docker import ContainersUnavailableError, Docker, containers
from tools.rehearsal.image.report import Report

__all__ = ["rehearse"]


def rehearse(root: Path, *environments: str, require_containers: bool) -> Report:
    """Deploy, check, call, change, compare and destroy each environment.

    Only the first one goes through the scenarios: zips, own resources, failing releases, illnesses.

    Args:
        root: The repository.
        environments: The environments' names.
        require_containers: Whether missing containers are a failure.
    """
    first, *others = environments
    report = Report(title=f"Deploys to an emulated AWS: {', '.join(environments)}")
    with tempfile.TemporaryDirectory(prefix="rehearse-") as name, ExitStack() as stack:
        folder = Path(name)
        function = stack.enter_context(function_server())
        with report.step("starting the emulated AWS"):
            (folder / "aws").mkdir()
            aws = stack.enter_context(emulator(folder / "aws", function_url=function.url))
        caller = make_role(aws, CALLER)
        make_role(aws, STRANGER)
        checkout = _copy(report, root, folder, first, caller, notify="rehearsal@example.com")
        with report.step("synthesizing the stacks"):
            assembly = synthesize(checkout.root, first, folder / "cdk.out")
        asset = image_assets(assembly)[0]
        docker = _docker(report, stack, root, asset, require_containers=require_containers)
        functions = _functions(stack, aws, checkout, folder)
        function.serve(functions.answer)
        (folder / "empty").mkdir()
        cdk = Cdk(checkout=checkout, aws=aws, docker=_client(aws, docker, asset, folder))
        # The first deploy builds and pushes the image: the others push empty ones.
        without_images = replace(cdk, docker=_client(aws, None, asset, folder / "empty"))
        record = folder / "docker.jsonl" if docker else None
        set_log_role(aws)
        parts = {"batch": BATCH_SETTINGS, "front": FRONT_SETTINGS, "server": make_network(aws)}
        variants = release_variants(server=parts["server"])
        assemblies = _synthesize(stack, root, checkout, folder, variants)
        with report.step("cdk bootstrap"):
            check_success(report, "cdk bootstrap", cdk.bootstrap())
        before = list_resources(aws)
        deployed = _deploy(report, cdk, function)
        if record is not None:
            _check_build(report, assembly, record)
        if deployed:
            check_publishing(report, aws, repository_name(first))
            check_zip_environment(report, cdk, deployed, root=root, folder=folder)
            check_owned_environment(report, without_images, parts, root=root, folder=folder)
            doctor = _change(report, without_images, deployed, functions, folder)
            with report.step("embed doctor, with each illness"):
                doctor.check_illnesses()
            Scenarios(
                report=report,
                cdk=without_images,
                deployed=deployed,
                functions=functions,
                variants={variant.name: variant for variant in variants},
                assemblies=assemblies,
                doctor=doctor,
            ).run()
            _destroy(report, without_images, before)
            report.note(
                f"Each function ran the code of its image in {functions.description} on this "
                "machine, with the variables, memory, timeout and role of the deployed function. "
                "scripts/test-image runs the image itself."
            )
        for other in others:
            report.about = other
            shipped = replace(without_images, checkout=_copy(report, root, folder, other, caller))
            _rehearse_shortly(report, shipped, function, functions, folder)
        if docker and record:
            _remove_images(docker, aws, record)
    report.note(
        "Some checks need an AWS account: docs/rehearsal.md lists them, each with its commands and "
        "its substitute here."
    )
    return report


def _rehearse_shortly(
    report: Report, cdk: Cdk, function: FunctionServer, functions: DeployedFunctions, folder: Path
) -> None:
    """Deploy an environment with its shipped settings, change its code, and destroy it."""
    before = list_resources(cdk.aws)
    deployed = _deploy(report, cdk, function)
    if deployed:
        _change(report, cdk, deployed, functions, folder)
        _destroy(report, cdk, before)


def _copy(
    report: Report, root: Path, folder: Path, environment: str, caller: str, *, notify: str = ""
) -> Checkout:
    """Copy the repository, and change the environment's file as the report notes."""
    checkout = copy_checkout(root, folder / environment, environment)
    checkout.use_demo_model()
    checkout.let_call(caller)
    if notify:
        checkout.notify(notify)
    for change in checkout.changes:
        report.note(f"Changed for the rehearsal: {change}.")
    return checkout


def _docker(
    report: Report, stack: ExitStack, root: Path, asset: ImageAsset, *, require_containers: bool
) -> Docker | None:
    try:
        docker = stack.enter_context(containers(root / ".cache" / "docker"))
        with report.step("getting the base images"):
            ensure_bases(docker, asset)
        # The CLI does not build an image whose name the daemon knows. The layers stay cached.
        # By force: a killed run leaves containers, and without force these keep the name.
        docker.succeeds("image", "rm", "--force", asset.tag)
    except ContainersUnavailableError as error:
        if require_containers:
            report.check("containers", "run on this machine", False, by="Docker", found=error)
        report.note(f"An empty image was pushed instead of the built one: {error}.")
        return None
    return docker


def _remove_images(docker: Docker, aws: Emulator, record: Path) -> None:
    """Remove the names that the rehearsal gave to images."""
    calls = [json.loads(line)["arguments"] for line in record.read_text().splitlines()]
    local = f"localhost:{aws.port}"
    pushed = {words[-1].replace(aws.registry, local) for words in calls if words[0] == "push"}
    built = {words[words.index("--tag") + 1] for words in calls if words[0] == "build"}
    for name in sorted(pushed | built):
        docker.succeeds("image", "rm", name)


def _client(aws: Emulator, docker: Docker | None, asset: ImageAsset, folder: Path) -> Path:
    return write_client(
        folder,
        registry=aws.registry,
        local=f"localhost:{aws.port}",
        docker=[docker.client, *certificates(asset)] if docker else None,
        variables=docker.environment if docker else {},
    )


def _deploy(report: Report, cdk: Cdk, function: FunctionServer) -> Outputs | None:
    """Deploy and call an environment; return the stacks' outputs, None after a failure."""
    with report.step(f"scripts/deploy {cdk.checkout.environment}, the first deploy"):
        if not check_success(report, "scripts/deploy", cdk.deploy()):
            return None
    deployed = read_outputs(cdk.aws, cdk.checkout.environment)
    with report.step("calling the endpoint"):
        _call(report, cdk, deployed, function)
    with report.step("cdk diff, with nothing changed"):
        same = cdk.diff()
        check = "finds no difference in a second synth after a deploy"
        report.check("cdk diff", check, same.status == 0, by="the CLI", found=same.tail(2))
    return deployed


def _change(
    report: Report, cdk: Cdk, deployed: Outputs, functions: DeployedFunctions, folder: Path
) -> DoctorScenario:
    """Deploy changed code, and without protection; return the doctor, who finds nothing failed."""
    check_code_change(report, cdk, deployed)
    _unprotect(report, cdk)
    place = folder / f"doctor-{cdk.checkout.environment}"
    doctor = make_scenario(report, cdk, deployed, artifact=functions.artifact, folder=place)
    with report.step("embed doctor"):
        doctor.check_health("after two deploys")
    return doctor


def _functions(
    stack: ExitStack, aws: Emulator, checkout: Checkout, folder: Path
) -> DeployedFunctions:
    environment = load_environment(checkout.environment, folder=checkout.file.parent)
    artifact = artifact_of(environment.model.name)
    artifacts = {"int8": artifact, "fp32": rename_space(artifact, folder / "renamed")}
    functions = DeployedFunctions(aws, artifacts, checkout.root / "cdk.out")
    stack.callback(functions.close)
    return functions


def _synthesize(
    stack: ExitStack, root: Path, checkout: Checkout, folder: Path, variants: tuple[Variant, ...]
) -> Path:
    """Start to synthesize the scenarios' variants, in another copy of the repository."""
    copy = copy_checkout(root, folder / "variants-checkout", checkout.environment)
    copy.file.write_text(checkout.file.read_text())
    if load_environment(copy.environment, folder=copy.file.parent).termination_protection:
        copy.unprotect()
    process = synthesize_variants(copy, variants, folder / "variants")
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return folder / "variants"


def _unprotect(report: Report, cdk: Cdk) -> None:
    environment = load_environment(cdk.checkout.environment, folder=cdk.checkout.file.parent)
    if not environment.termination_protection:
        return
    with report.step("scripts/destroy of a protected environment"):
        refused = cdk.destroy(cdk.assembly)
    check = "refuses an environment with termination_protection = true"
    ok = refused.status != 0 and refused.count("termination protection") == 1
    report.check("scripts/destroy", check, ok, by="its output", found=refused.tail(2))
    cdk.checkout.unprotect()
    with report.step("scripts/deploy, without protection"):
        check_success(report, "scripts/deploy without protection", cdk.deploy())


def _destroy(report: Report, cdk: Cdk, before: Leftovers) -> None:
    environment = load_environment(cdk.checkout.environment, folder=cdk.checkout.file.parent)
    with report.step("scripts/destroy"):
        done = cdk.destroy(cdk.assembly)
    if check_success(report, "scripts/destroy", done):
        check_destroyed(report, cdk.aws, environment, before)


def _check_build(report: Report, assembly: Path, record: Path) -> None:
    """Compare the CLI's calls of docker with the command of `scripts/test-image`."""
    calls = [json.loads(line)["arguments"] for line in record.read_text().splitlines()]
    by = "the CLI's calls of docker"
    built = [words for words in calls if words[0] == "build"]
    ours = [asset.command for asset in image_assets(assembly)]
    report.check(
        "image",
        "the CLI builds it with the command of scripts/test-image",
        sorted(built) == sorted(ours),
        by=by,
        found=" ".join(built[0]) if built else "no build",
    )
    pushed = [words[-1].rpartition("/")[2] for words in calls if words[0] == "push"]
    report.check("image", "the CLI pushes it", bool(pushed), by=by, found=", ".join(pushed))


def _call(report: Report, cdk: Cdk, deployed: Outputs, function: FunctionServer) -> None:
    caller, stranger = (
        cdk.aws.assume(f"arn:aws:iam::{cdk.aws.account}:role/{name}") for name in (CALLER, STRANGER)
    )
    events = function.events
    check_answers(report, cdk.aws, deployed, caller=caller, stranger=stranger)
    report.check(
        "endpoint",
        "refused requests do not invoke the function",
        function.events == events + 1,
        by="the process that answers the URL",
        found=f"{function.events - events} events",
    )
