"""Deploy environments to an emulated AWS, and check the endpoint, its releases and the destroy."""

import argparse
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import tomlkit

from embedding_kit.programs import exit_with
from stacks.environment_file import load_environment
from tools.local_endpoint.models import artifact_of
from tools.rehearsal.deploy.cdk import Cdk, Checkout, copy_checkout
from tools.rehearsal.deploy.checks import (
    BATCH_SETTINGS,
    CALLER,
    FRONT_SETTINGS,
    STRANGER,
    check_answers,
    check_code_change,
    check_destroyed,
    check_health,
    list_resources,
    make_network,
    set_log_role,
)
from tools.rehearsal.deploy.deployed_functions import (
    DeployedFunctions,
    FunctionServer,
    function_server,
    rename_space,
)
from tools.rehearsal.deploy.docker_client import recorded_calls, write_client
from tools.rehearsal.deploy.emulator import Emulator, emulator
from tools.rehearsal.deploy.environments import check_all_parts, check_proof, check_zip_environment
from tools.rehearsal.deploy.releases import Releases
from tools.rehearsal.image.asset import image_assets, synthesize
from tools.rehearsal.report import Report, run

#: A model that needs no model hub and no accepted terms.
_MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def main() -> int:
    """Rehearse the environments of the command line; return 0 if all checks hold, else 1."""
    parser = argparse.ArgumentParser(prog="scripts/rehearse", description=__doc__)
    parser.add_argument("environment", nargs="*", default=["dev"], help="default: dev")
    names = parser.parse_args().environment
    return run(lambda report, root: rehearse(report, root, *names))


def rehearse(report: Report, root: Path, *environments: str) -> None:
    """Deploy, check, call, change, compare and destroy each environment.

    Only the first one goes through the scenarios: zips, own resources, failing releases, parts.
    """
    first_environment, *other_environments = environments
    with tempfile.TemporaryDirectory(prefix="rehearse-") as temporary, ExitStack() as stack:
        folder = Path(temporary)
        function = stack.enter_context(function_server())
        with report.step("starting the emulated AWS"):
            (folder / "aws").mkdir()
            aws = stack.enter_context(emulator(folder / "aws", function_url=function.url))
            for role in (CALLER, STRANGER):
                aws.make_role(role)
            set_log_role(aws)
        checkout = _copy(root, folder / first_environment, first_environment, notify=True)
        with report.step("synthesizing the stacks"):
            assembly = synthesize(checkout.root, first_environment, folder / "cdk.out")
        artifact = artifact_of(_MODEL)
        artifacts = {"int8": artifact, "fp32": rename_space(artifact, folder / "renamed")}
        functions = DeployedFunctions(aws, artifacts, checkout.root / "cdk.out")
        stack.callback(functions.close)
        function.serve = functions.answer
        client = write_client(folder / "client", aws)
        cdk = Cdk(report=report, checkout=checkout, aws=aws, docker=client)
        run = _Rehearsal(root, folder, function, functions)
        cdk.succeeded(cdk.bootstrap())
        run.scenarios(cdk, assembly)
        for name in other_environments:
            run.shortly(replace(cdk, checkout=_copy(root, folder / name, name)))
    report.notes.append("Some checks need an AWS account: .github/CONTRIBUTING.md lists them.")


@dataclass(frozen=True)
class _Rehearsal:
    """A rehearsal of all environments: its folders, and the functions that the emulator runs."""

    root: Path
    folder: Path
    function: FunctionServer
    functions: DeployedFunctions

    def shortly(self, cdk: Cdk) -> None:
        """Deploy an environment with its shipped settings, change its code, and destroy it."""
        self.functions.assembly = cdk.assembly
        before = list_resources(cdk.aws)
        cdk.succeeded(cdk.deploy("the first deploy"))
        check_answers(cdk, self.function)
        self._change(cdk)
        self._destroy(cdk, before)

    def scenarios(self, cdk: Cdk, assembly: Path) -> None:
        """Deploy the first environment, and take it and others through the scenarios.

        Its assembly has the images of the first deploy, which `scripts/test-image` builds.
        """
        aws = cdk.aws
        server = make_network(aws)
        network = {name: server[name] for name in ("vpc", "subnets")}
        server_settings = {name: server[name] for name in server.keys() - network.keys()}
        tables = {"batch": BATCH_SETTINGS, "front": FRONT_SETTINGS, "server": server}
        before = list_resources(aws)
        cdk.succeeded(cdk.deploy("the first deploy"))
        calls = recorded_calls(cdk.docker)
        built = [words for words in calls if words[0] == "build"]
        ours = [asset.command for asset in image_assets(assembly)]
        check = "it builds the image with the command of scripts/test-image, and pushes it"
        pushed = any(words[0] == "push" for words in calls)
        cdk.report.check(check, pushed and sorted(built) == sorted(ours), built)
        check_answers(cdk, self.function)
        check_zip_environment(cdk, cdk.outputs()["Url"], root=self.root, folder=self.folder)
        check_proof(cdk, root=self.root, folder=self.folder)
        check_all_parts(cdk, tables, root=self.root, folder=self.folder)
        self._change(cdk)
        Releases(
            cdk=cdk,
            functions=self.functions,
            # The server takes its place from `[network]`.
            parts=tables | {"server": server_settings, "network": network},
            folder=self.folder,
        ).run()
        self._destroy(cdk, before)

    def _change(self, cdk: Cdk) -> None:
        check_code_change(cdk)
        name, folder = cdk.checkout.environment, cdk.checkout.file.parent
        if load_environment(name, folder=folder).termination_protection:
            refused = cdk.destroy("of a protected environment")
            holds = refused.status != 0 and refused.count("termination protection") == 1
            cdk.report.check("it is refused", holds, refused.last())
            with cdk.checkout.edit() as document:
                document["termination_protection"] = False
            cdk.succeeded(cdk.deploy("without protection"))
        check_health(cdk, self.folder)

    def _destroy(self, cdk: Cdk, before: set[tuple[str, str]]) -> None:
        cdk.succeeded(cdk.destroy("in the end"))
        check_destroyed(cdk, before)


def _copy(root: Path, folder: Path, environment: str, *, notify: bool = False) -> Checkout:
    """Copy the repository, and change the environment's file as .github/CONTRIBUTING.md says.

    With `notify`, alarms have an address: without one there is no topic.
    """
    checkout = copy_checkout(root, folder, environment)
    with checkout.edit() as document:
        if document["model"]["name"] != _MODEL:
            document["model"] = tomlkit.item({"name": _MODEL})
        callers = document.setdefault("callers", tomlkit.table())
        role = f"arn:aws:iam::{Emulator.account}:role/{CALLER}"
        callers["principals"] = [*callers.get("principals", []), role]
        if notify:
            alarms = document.setdefault("alarms", tomlkit.table())
            alarms["emails"] = [*alarms.get("emails", []), "rehearsal@example.com"]
    return checkout


if __name__ == "__main__":
    exit_with(main)
