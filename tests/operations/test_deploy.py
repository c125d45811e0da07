"""The order of a deploy's steps, and what ends it. The steps have tests of their own."""

import subprocess

import pytest

from operations import cleanup, deploy

from .conftest import dev_with

CHECKS = ["download", "check_account", "check_age"]
RELEASE = ["prepare_alias", "deploy_stacks", "clean_up"]
PROMOTED = ["check_images", "deploy_store", "copy_images"]


@pytest.fixture
def run(monkeypatch, session):
    """Return a function that deploys dev; it returns the status, the steps, the CDK's commands.

    Fakes replace all steps except those that call the CDK's command. `failing` ends with status 4.
    """

    def run(*arguments, failing="nothing", **tables):
        calls, commands = [], []
        chosen = deploy.steps

        def stand_in(step):
            def act(made):
                calls.append(step.__name__)
                if step.__name__ in {"check_images", "copy_images"}:
                    made.images = ("-c", "images=endpoint=sha256:a")
                if step.__name__ in {"deploy_store", "deploy_stacks", "show_difference"}:
                    return step(made)
                return 4 if step.__name__ == failing else None

            return act

        def run_cdk(*command):
            commands.append(" ".join(command))
            if command[0] == failing:
                raise subprocess.CalledProcessError(4, "cdk")

        def report(*_):
            calls.append("after_failed_deploy")
            raise ValueError("dev was not deployed")

        with monkeypatch.context() as patch:
            patch.setattr(
                "operations.command.load_environment", lambda *_, **__: dev_with(**tables)
            )
            patch.setattr(deploy, "session_for", lambda *_, **__: session)
            patch.setattr(deploy, "run_cdk", run_cdk)
            patch.setattr(cleanup, "after_failed_deploy", report)
            patch.setattr(deploy, "steps", lambda options: map(stand_in, chosen(options)))
            return deploy.main(["dev", *arguments]), calls, commands

    return run


def test_a_deploy_ends_with_the_doctor(run):
    """After the steps before and after the CDK's own; the CDK's options are those of others."""
    status, calls, commands = run("--require-approval", "never", "--all", "-c", "break-glass=true")
    assert (status, calls) == (0, [*CHECKS, "build", *RELEASE, "check_up"])
    options = "--require-approval never --all -c break-glass=true"
    assert commands == [f"deploy --all -c environment=dev {options}"]


def test_the_steps_of_the_own_app_alone_are_left_out_for_another(run):
    """--no-doctor leaves out the doctor, and is not passed to the CDK's command."""
    status, calls, commands = run("--app", "a b", "--no-doctor", "--verbose")
    assert (status, calls) == (0, ["check_account", "build", *RELEASE])
    assert commands == ["deploy --all -c environment=dev --app a b --verbose"]


def test_images_are_checked_before_anything_changes(run):
    """Then the repository is deployed, and the images are copied into it."""
    option = "--require-approval=never"
    status, calls, commands = run("--image", "sha256:a", option, "--image=b")
    assert (status, calls) == (0, [*CHECKS, *PROMOTED, *RELEASE, "check_up"])
    assert commands == [
        f"deploy EmbeddingKit-dev-Repository --exclusively -c environment=dev {option}",
        f"deploy --all -c images=endpoint=sha256:a -c environment=dev {option}",
    ]


def test_a_zip_may_need_no_stack_of_the_kit(run):
    """It is copied into the bucket of bootstrap, and not built."""
    status, calls, commands = run("--image=a.zip", "--no-doctor", function={"package": "zip"})
    assert (status, calls) == (0, [*CHECKS, *PROMOTED, *RELEASE])
    assert len(commands) == 1


@pytest.mark.parametrize(
    ("options", "steps", "command"),
    [
        (["--fail"], ["download", "check_place"], "--fail"),
        (["--app", "x"], [], "--app x"),
        (["--image=a", "--fail"], ["download", "check_place", "check_images"], "--fail"),
    ],
)
def test_a_difference_is_that_of_the_same_deploy(run, options, steps, command):
    """With the images that it would deploy, checked and not copied; nothing is built or changed."""
    status, calls, commands = run("--diff", *options)
    assert (status, calls) == (0, [*steps, "show_difference"])
    images = "-c images=endpoint=sha256:a " if "check_images" in steps else ""
    assert commands == [f"diff {images}-c environment=dev {command}"]


IMAGE = ["--image", "a"]


@pytest.mark.parametrize(
    ("options", "failing", "last"),
    [
        ([], "check_account", "check_account"),
        ([], "check_age", "check_age"),
        ([], "build", "build"),
        (IMAGE, "check_images", "check_images"),
        # The CDK's command.
        (IMAGE, "deploy", "deploy_store"),
        (IMAGE, "copy_images", "copy_images"),
        ([], "prepare_alias", "prepare_alias"),
        ([], "deploy", "after_failed_deploy"),
        ([], "clean_up", "clean_up"),
        ([], "check_up", "check_up"),
        (["--diff", *IMAGE], "check_images", "check_images"),
        (["--diff"], "diff", "show_difference"),
    ],
)
def test_nothing_follows_a_step_that_fails(run, options, failing, last):
    """The status is that of the step; after a deploy that failed, its state is reported."""
    status, calls, _ = run(*options, failing=failing)
    assert (status, calls[-1]) == (4, last)


@pytest.mark.parametrize("app", [["--app", "cdk.out"], ["--app=cdk.out"], ["-a", "cdk.out"]])
def test_images_are_not_deployed_by_another_app(run, capsys, app):
    """Such an app would deploy images of its own."""
    assert run(*app, "--image", "sha256:a") == (1, [], [])
    assert capsys.readouterr().err == (
        "error: only this repository's own app deploys --image; found: --image with --app; "
        "allowed: one of them; nothing was deployed\n"
    )
