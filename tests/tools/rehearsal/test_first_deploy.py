"""First deploys that fail, on the emulated AWS: the terminal has the cause, and the log stays."""

import shutil

import pytest

from tools.local_endpoint.models import artifact_of
from tools.rehearsal.deploy.cdk import HANDLER

from . import test_build_once
from .test_build_once import MODEL
from .test_mishaps import QUIET

# The fixture of a shell in a copy of the repository.
run = test_build_once.run

# Starts the CDK's command many times.
pytestmark = pytest.mark.slow

STACK = "EmbeddingKit-dev-Endpoint"
#: As the kernel ends a process that uses more memory than the function has.
KILLED = """
def handler(event, context):
    import os, signal

    os.kill(os.getpid(), signal.SIGKILL)
"""


def _raises(run):
    _append(run, 'raise RuntimeError("a package is missing: the cause")\n')


def _runs_out_of_memory(run):
    _append(run, KILLED)


def _append(run, code):
    handler = run.checkout.root / HANDLER
    handler.write_text(handler.read_text() + code)


def _may_not_invoke(run):
    """Take a permission away, as a boundary or a policy of the organization does."""
    release = run.checkout.root / "constructs" / "embedding_kit" / "release.py"
    release.write_text(release.read_text().replace(', "lambda:InvokeFunction"', ""))


def _has_a_damaged_artifact(run):
    """Change the model after its build: the manifest has the sizes and hashes of what was built."""
    damaged = run.checkout.root.parent / "damaged"
    if not damaged.is_dir():
        shutil.copytree(artifact_of(MODEL), damaged)
        weights = max(damaged.iterdir(), key=lambda file: file.stat().st_size)
        with weights.open("r+b") as file:
            file.truncate(100)
    run.functions._artifacts["int8"] = damaged
    _append(run, "# Another image.\n")


CAUSES = {
    "an exception at import": (_raises, "RuntimeError: a package is missing: the cause"),
    "out of memory": (_runs_out_of_memory, "out of memory: raise memory_mb under [function]"),
    "a missing permission": (_may_not_invoke, "AccessDenied"),
    "a damaged artifact": (_has_a_damaged_artifact, "ArtifactError: "),
}


def _log_groups(run):
    found = run.aws.client("logs").describe_log_groups(logGroupNamePrefix=f"{STACK}-")["logGroups"]
    return {group["logGroupName"] for group in found}


def test_the_terminal_names_the_cause_and_the_next_deploy_works(run):
    """Each cause follows another one; a deploy without any deletes the logs of those before."""
    sources = {
        run.checkout.root / name: None for name in (HANDLER, "constructs/embedding_kit/release.py")
    }
    for file in sources:
        sources[file] = file.read_text()
    logs: set[str] = set()
    for cause, (act, told) in CAUSES.items():
        act(run)
        failed = run("scripts/deploy", "dev", *QUIET)
        printed = failed.stdout + failed.stderr
        assert failed.returncode == 1, cause
        assert told in printed, printed[-6000:]
        assert run.status("dev") == "ROLLBACK_COMPLETE"
        kept = _log_groups(run) - logs
        assert {name.removeprefix(STACK)[:18] for name in kept} == {
            "-EndpointEmbedderL",
            "-EndpointCheckLogs",
        }
        assert all(f"aws logs tail {name} --since 1h" in failed.stderr for name in kept)
        logs |= kept
        for file, text in sources.items():
            file.write_text(text)
        run.functions._artifacts["int8"] = artifact_of(MODEL)
    run.succeeds("scripts/deploy", "dev", *QUIET)
    assert not _log_groups(run) & logs
    run.succeeds("scripts/destroy", "dev", "--force")
    assert not _log_groups(run)
