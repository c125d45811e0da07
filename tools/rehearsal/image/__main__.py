"""Build an environment's images and its zip, inspect and run them, and compare their vectors."""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path

from embedding_kit.image_identity import build_command
from embedding_kit.programs import exit_with
from embedding_kit.settings import FunctionSettings, ModelSettings, artifact_in_s3
from stacks.environment_file import load_environment
from tools.debian import DebianError
from tools.rehearsal.image.asset import image_assets, synthesize
from tools.rehearsal.image.docker import containers
from tools.rehearsal.image.other_images import batch_image, server_image, together_image
from tools.rehearsal.image.substitute_base import ensure_bases
from tools.rehearsal.image.target import (
    EMBEDDER,
    Target,
    Tested,
    build_target,
    check_bytecode,
    check_tree,
    compare,
    embed_events,
    embedded,
    event,
    function_variables,
    leaked,
    unpack_zip,
)
from tools.rehearsal.report import Report, run
from zip_builder.tree import LIMIT_BYTES

#: The most that packages and code of a zip may take, unpacked. Synth counts with 78 MB.
_MOST_BYTES_OF_ZIP = 83_000_000


def main() -> int:
    """Verify the environment of the command line; return 0 if all checks hold, else 1."""
    parser = argparse.ArgumentParser(prog="scripts/test-image", description=__doc__)
    parser.add_argument("environment", nargs="?", default="dev", help="default: dev")
    parser.add_argument(
        "--require-containers",
        action="store_true",
        default=bool(os.environ.get("CI")),
        help="fail if containers cannot run; the default if CI is set",
    )
    options = parser.parse_args()
    return run(lambda report, root: verify(report, root, **vars(options)))


def verify(report: Report, root: Path, environment: str, *, require_containers: bool) -> None:
    """Build an environment's images and its zip, and check them."""
    model = load_environment(environment, folder=root / "environments").model
    with tempfile.TemporaryDirectory(prefix="test-image-") as name:
        folder = Path(name)
        with report.step("synthesizing the stacks"):
            assembly = synthesize(root, environment, folder / "cdk.out")
            endpoint = _endpoint_image(assembly, texts=bool(model.index))
            checks_of_others = [
                make(root, environment, folder / f"{make.__name__}.out")
                for make in (batch_image, server_image)
            ]
            checks_of_others.append(together_image(folder / "together.out", endpoint=endpoint))
        try:
            with containers(root / ".cache" / "docker") as docker:
                base = ensure_bases(report, docker, endpoint.asset)
                tested = []
                for target in (endpoint, *checks_of_others):
                    target_folder = folder / target.name
                    target_folder.mkdir()
                    target_tested = build_target(
                        report, docker, target, base=base, folder=target_folder
                    )
                    tested.append(target_tested)
                    target.check(target_tested)
                if not artifact_in_s3(model, FunctionSettings(package="zip")):
                    _check_zip(tested[0], model)
                for target_tested in tested:
                    docker.run("image", "rm", target_tested.asset.tag)
        except DebianError as error:
            if require_containers:
                report.check("containers run on this machine", False, error)
            report.notes.append(f"The images were not built and not run: {error}.")


def _endpoint_image(assembly: Path, *, texts: bool) -> Target:
    """Return the image with the default command that a function of the stacks runs."""
    for template in sorted(assembly.glob("*.template.json")):
        for resource in json.loads(template.read_text()).get("Resources", {}).values():
            properties = resource.get("Properties", {})
            own = "Command" not in properties.get("ImageConfig", {})
            if resource["Type"] == "AWS::Lambda::Function" and own:
                code = json.dumps(properties["Code"])
                return Target(
                    name="endpoint",
                    asset=next(a for a in image_assets(assembly) if a.hash in code),
                    variables=function_variables(properties),
                    command=(EMBEDDER,),
                    most_bytes=100_000_000,
                    check=lambda tested: _check_answers(tested, similar=200 if texts else 404),
                )
    raise ValueError(f"{assembly}: no function runs an image's default command")


def _check_answers(tested: Tested, *, similar: int) -> None:
    """Start the image in Lambda's emulator, send requests, and compare the vectors."""
    requests = [
        event("GET", "/health"),
        event("POST", "/", {"text": ""}),
        event("POST", "/similar", {"text": "a"}),
    ]
    with (
        tested.report.step("starting the image in its emulator, and sending requests"),
        tested.running() as container,
    ):
        statuses = [answer.get("statusCode") for answer in container.invoke(requests)]
        answers = container.invoke(embed_events())
        log = container.logs()
    check = f"GET /health answers 200, an empty text 400, and POST /similar {similar}"
    tested.report.check(check, statuses == [200, 400, similar], statuses)
    leaks = leaked(log)
    tested.report.check("no text of a request is in the log", not leaks and bool(log), leaks or "")
    compare(tested, *embedded(answers))


def _check_zip(tested: Tested, model: ModelSettings) -> None:
    """Build the zip of the same model, and run its files, which are for ARM64, in a container."""
    report, folder = tested.report, tested.folder / "zip"
    with report.step("building the zip of the same model with the command of a deploy"):
        done = subprocess.run(build_command(model), stdout=subprocess.PIPE, text=True, check=True)
        unpack_zip(Path(done.stdout.strip()), folder)
    check_tree(report, folder, most_bytes=_MOST_BYTES_OF_ZIP)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    check = f"Lambda unpacks it: up to {LIMIT_BYTES / 1e6:.0f} MB"
    report.check(check, size <= LIMIT_BYTES, f"{size / 1e6:.1f} MB")
    mounts = {folder: "/var/task"}
    check_bytecode(tested, mounts)
    with report.step("running the zip's files in the container, and the image's own"):
        with tested.running(mounts=mounts) as container:
            of_zip = embedded(container.invoke(embed_events()))
        with tested.running() as container:
            of_image = embedded(container.invoke(embed_events()))
    report.check("its vectors equal the image's, to the last bit", of_zip == of_image)


if __name__ == "__main__":
    exit_with(main)
