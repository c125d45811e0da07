"""Mistakes of operators, on the emulated AWS: the next command works, or says what does."""

import os
import re
import signal
import subprocess
import time

import pytest
import tomlkit

from tests.fixtures.waiting import PATIENCE

from . import test_build_once

# The fixture of a shell in a copy of the repository.
run = test_build_once.run

# Starts the CDK's command many times.
pytestmark = pytest.mark.slow

QUIET = ("--no-doctor", "--require-approval", "never")
ENDPOINT = "EmbeddingKit-dev-Endpoint"


@pytest.fixture(scope="module", autouse=True)
def _long_steps():
    """Let a release last longer than the commands that meet it, on a busy machine too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REHEARSAL_STEP_SECONDS", "40")
        yield


def _alias(run):
    (found,) = run.aws.client("lambda").list_aliases(FunctionName=_function(run))["Aliases"]
    return found


def _function(run):
    return run.configuration("dev")["FunctionName"]


def _url(run):
    return run.aws.outputs(ENDPOINT)["Url"]


def _deploy_until(run, reached):
    """Deploy at a terminal of its own, press Ctrl-C when a state is reached; return the output."""
    process = subprocess.Popen(
        ["scripts/deploy", "dev", *QUIET],
        cwd=run.checkout.root,
        env=run.variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    while process.poll() is None and not reached():
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, printed


def test_an_interrupted_deploy_says_what_continues(run):
    """Another deploy is refused before it builds; with the named command, the same deploy works."""
    document = tomlkit.parse(run.checkout.file.read_text())
    document["release"] = {"kind": "canary"}
    run.checkout.file.write_text(tomlkit.dumps(document))
    run.succeeds("scripts/deploy", "dev", *QUIET)
    assert run.status("dev") == "CREATE_COMPLETE"
    served = _alias(run)["FunctionVersion"]
    run.checkout.change_code()
    status, printed = _deploy_until(run, lambda: "RoutingConfig" in _alias(run))
    assert status != 0
    assert "Traceback" not in printed, printed[-4000:]
    changing = f"AWS is changing {ENDPOINT} (UPDATE_IN_PROGRESS), and takes no other change of it"
    *_, note, error = printed.splitlines()
    assert note.startswith(f"note: {changing}; allowed: to wait until it ends, or scripts/rollback")
    assert error == "error: the deploy has not ended; when AWS has: scripts/deploy dev"
    builds = run.builds
    refused = run("scripts/deploy", "dev", *QUIET)
    assert refused.returncode == 1
    assert f"error: {changing}" in refused.stderr
    assert run.builds == builds
    run.succeeds("scripts/rollback", "dev")
    while run.status("dev").endswith("_IN_PROGRESS"):
        time.sleep(0.2)
    # It stops the release, or goes back if that has ended meanwhile.
    assert _alias(run)["FunctionVersion"] == served
    run.succeeds("scripts/deploy", "dev", *QUIET)
    assert _alias(run)["FunctionVersion"] != served
    del document["release"]
    run.checkout.file.write_text(tomlkit.dumps(document))


def test_a_deleted_repository_is_made_again_by_the_printed_commands(run):
    """The URL stays, and the new version has its image."""
    url = _url(run)
    run.aws.client("ecr").delete_repository(repositoryName="embedding-kit-dev", force=True)
    refused = run("scripts/deploy", "dev", *QUIET)
    assert refused.returncode == 1
    assert "AggregateError" not in refused.stderr
    (line,) = (line for line in refused.stderr.splitlines() if "To make another: " in line)
    commands = line.partition("To make another: ")[2]
    assert re.match(r"aws cloudformation delete-stack --stack-name (\S+) && ", commands)
    cloudformation = run.aws.client("cloudformation")
    cloudformation.delete_stack(StackName="EmbeddingKit-dev-Repository")
    cloudformation.get_waiter("stack_delete_complete").wait(
        StackName="EmbeddingKit-dev-Repository", WaiterConfig={"Delay": 1}
    )
    assert "scripts/deploy dev $(scripts/build dev | sed s/^/--image=/)" in commands
    served = _alias(run)["FunctionVersion"]
    options = " ".join(QUIET)
    build = "$(scripts/build dev | sed s/^/--image=/)"
    run.succeeds("bash", "-c", f"scripts/deploy dev {options} {build}")
    assert _alias(run)["FunctionVersion"] != served
    (image,) = run.images("dev")
    found = run.aws.client("lambda").get_function(FunctionName=_function(run), Qualifier="live")
    assert found["Code"]["ImageUri"].endswith(image)
    assert _url(run) == url
