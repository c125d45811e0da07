"""The order of a destroy's steps, and its message after a failure. Other files test the steps."""

import subprocess

import pytest

from operations import cleanup, destroy

CDK = "cdk destroy --all -c environment=dev --force"


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that destroys dev; it returns the status, the steps, the errors."""

    def run(*arguments, answer=0, cdk=0, after=None):
        calls = []

        def before_destroy(*_, force, only_removed):
            calls.append(f"before {force} {only_removed}")
            return answer

        def run_cdk(*command):
            calls.append(" ".join(("cdk", *command)))
            if cdk:
                raise subprocess.CalledProcessError(cdk, "cdk")

        def after_destroy(*_):
            calls.append("after")
            if after:
                raise after

        monkeypatch.setattr(destroy, "session_for", lambda *_, **__: None)
        monkeypatch.setattr(destroy, "run_cdk", run_cdk)
        monkeypatch.setattr(cleanup, "before_destroy", before_destroy)
        monkeypatch.setattr(cleanup, "after_destroy", after_destroy)
        return destroy.main(["dev", *arguments]), calls, capsys.readouterr().err

    return run


def test_destroy_asks_before_the_cdk_is_called(run):
    """It ends if the user refuses."""
    assert run(answer=1) == (1, ["before False False"], "")


@pytest.mark.parametrize(
    ("options", "force", "command"),
    [
        (["--verbose"], False, f"{CDK} --verbose"),
        (["--force"], True, CDK),
        (["-f"], True, CDK),
        (["--force=true"], True, CDK),
    ],
)
def test_destroy_asks_once(run, options, force, command):
    """The CDK asks nothing, because the user has confirmed, or forces it, as CI needs."""
    assert run(*options) == (0, [f"before {force} False", command, "after"], "")


def test_what_the_file_no_longer_has_is_destroyed_without_the_cdk(run):
    """The CDK's command would destroy the stacks that the file has."""
    assert run("--removed") == (0, ["before False True"], "")


NOT_DESTROYED = (
    "error: dev was not destroyed; 'scripts/destroy dev' continues, 'scripts/deploy dev' restores "
    "the missing parts\n"
)


@pytest.mark.parametrize(
    ("failures", "status", "calls", "errors"),
    [
        ({"cdk": 1}, 1, 2, NOT_DESTROYED),
        ({"cdk": 130}, 130, 2, NOT_DESTROYED),
        ({"after": KeyboardInterrupt()}, 130, 3, NOT_DESTROYED),
        ({"after": ValueError("a stays")}, 1, 3, f"error: a stays\n{NOT_DESTROYED}"),
    ],
)
def test_a_failed_destroy_is_not_reported_as_done(run, failures, status, calls, errors):
    """The step after the CDK's command runs only if that succeeded. The last line says more."""
    result = run("--force", **failures)
    assert (result[0], len(result[1]), result[2]) == (status, calls, errors)
