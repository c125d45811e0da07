"""scripts/deploy and scripts/destroy run their steps in order, and pass options on.

The programs of its steps are stand-ins that record their arguments.
"""

import functools
import textwrap

import pytest

#: Fails at the step with the text of FAIL_AT, with the status FAIL_WITH.
_PROGRAM = textwrap.dedent("""\
    #!/usr/bin/env bash
    called="$(basename "$0") $*"
    echo "$called" >> "$CALLS"
    echo "${AWS_DEFAULT_REGION:-}" >> "$CALLS.region"
    [[ "$called" != cdk* ]] || echo "${CDK_ASSET_PREBUILD:-unset}" >> "$CALLS.prebuild"
    [[ "$called" != *"--check stack"* ]] || echo "${STORE:-}"
    [[ "$called" != *"--check images"* ]] || echo endpoint=sha256:a
    [[ -z "${INTERRUPT:-}" || "$called" != *"$INTERRUPT"* ]] || { kill -INT 0; sleep 60; }
    [[ -z "${FAIL_AT:-}" || "$called" != *"$FAIL_AT"* ]] || exit "${FAIL_WITH:-1}"
    """)
DOWNLOAD = "python -m operations.model_download dev"
PREFLIGHT = "python -m operations.preflight dev"
OLDER = "python -m operations.older_file dev"
ZIP = "python -m operations.zip_build dev"
BEFORE = "python -m operations.cleanup dev --before deploy"
DEPLOY = "cdk deploy --all -c environment=dev"
AFTER = "python -m operations.cleanup dev --after deploy"
DOCTOR = "python -m operations.checkup dev"


@pytest.fixture
def script(scripts_with):
    """Return a function that runs a script; it returns the exit status and the calls."""
    return scripts_with(_PROGRAM)


@pytest.fixture
def deploy(script):
    """Return a function that runs scripts/deploy."""
    return functools.partial(script, "deploy")


def test_a_deploy_ends_with_the_doctor(deploy):
    """After the steps before and after the CDK's own."""
    assert deploy("dev") == (0, [DOWNLOAD, PREFLIGHT, OLDER, ZIP, BEFORE, DEPLOY, AFTER, DOCTOR])


def test_the_doctor_can_be_left_out(deploy):
    """The option is not the CDK's, which gets the others as they were given."""
    status, calls = deploy("dev", "--app", "a b", "--no-doctor", "-c", "break-glass=true")
    options = "--app a b -c break-glass=true"
    assert status == 0
    assert calls == [
        f"{PREFLIGHT} {options}",
        f"{ZIP} {options}",
        BEFORE,
        f"{DEPLOY} {options}",
        AFTER,
    ]


def test_images_are_checked_before_anything_changes(deploy):
    """Then the repository is deployed, and the images are copied into it."""
    option = "--require-approval=never"
    store = "EmbeddingKit-dev-Repository"
    status, calls = deploy("dev", "--image", "sha256:a", option, "--image=b", STORE=store)
    assert status == 0
    assert calls == [
        DOWNLOAD,
        f"{PREFLIGHT} --built {option}",
        f"{OLDER} {option}",
        "python -m operations.promotion dev --check stack --image sha256:a --image=b",
        f"cdk deploy EmbeddingKit-dev-Repository --exclusively -c environment=dev {option}",
        "python -m operations.promotion dev --image sha256:a --image=b",
        BEFORE,
        f"{DEPLOY} {option} -c images=",
        AFTER,
        DOCTOR,
    ]


def test_a_zip_may_need_no_stack_of_the_kit(deploy):
    """It is copied into the bucket of bootstrap, and not built."""
    status, calls = deploy("dev", "--image=a.zip", "--no-doctor")
    assert status == 0
    assert calls == [
        DOWNLOAD,
        f"{PREFLIGHT} --built",
        OLDER,
        "python -m operations.promotion dev --check stack --image=a.zip",
        "python -m operations.promotion dev --image=a.zip",
        BEFORE,
        f"{DEPLOY} -c images=",
        AFTER,
    ]


def test_an_older_file_is_checked_before_anything_is_built(deploy):
    """The option reaches that check alone; a refusal ends the deploy."""
    status, calls = deploy("dev", "--allow-older-file", "--yes")
    assert status == 0
    assert [call for call in calls if "older" in call] == [f"{OLDER} --allow-older-file --yes"]
    assert deploy("dev", FAIL_AT="older_file") == (1, [DOWNLOAD, PREFLIGHT, OLDER])


@pytest.mark.parametrize("step", ["--check", "promotion dev --image"])
def test_a_refused_image_is_not_deployed(deploy, step):
    """Neither one of other settings, nor one after a failed copy."""
    status, calls = deploy("dev", "--image", "sha256:a", FAIL_AT=step)
    assert status == 1
    assert step in calls[-1]


def test_a_difference_is_that_of_the_same_deploy(deploy):
    """With the images that it would deploy, checked and not copied; nothing is built or changed."""
    difference, place = "cdk diff -c environment=dev --fail", f"{PREFLIGHT} --diff"
    assert deploy("dev", "--diff", "--fail") == (0, [DOWNLOAD, place, difference])
    assert deploy("dev", "--diff", FAIL_AT="preflight") == (1, [DOWNLOAD, place])
    with_app = "cdk diff -c environment=dev --app x"
    assert deploy("dev", "--diff", "--app", "x") == (0, [with_app])
    status, calls = deploy("dev", "--image=a", "--diff", "--fail")
    assert status == 0
    assert calls == [
        DOWNLOAD,
        place,
        "python -m operations.promotion dev --check images --image=a",
        f"{difference} -c images=endpoint=sha256:a",
    ]
    status, calls = deploy("dev", "--image=a", "--diff", FAIL_AT="--check images")
    assert (status, len(calls)) == (1, 3)


def test_no_image_is_built_before_its_repository_is_made(deploy, tmp_path):
    """The CDK's command would build first, and a first deploy would fail without the repository."""
    assert deploy("dev", "--image=a", STORE="EmbeddingKit-dev-Repository")[0] == 0
    assert (tmp_path / "calls.prebuild").read_text().split() == ["false", "false"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        # Such an app would deploy images of its own.
        *(
            (("dev", *app, "--image", "sha256:a"), 1)
            for app in (("--app", "cdk.out"), ("--app=cdk.out",), ("-a", "cdk.out"))
        ),
        (("dev", "--image"), 1),
        ((), 2),
    ],
)
def test_nothing_runs_without_a_name_or_a_digest_or_for_another_app(deploy, arguments, status):
    """The script says how it is used."""
    assert deploy(*arguments) == (status, [])


@pytest.mark.parametrize(
    ("step", "last"),
    [
        ("operations.preflight", PREFLIGHT),
        ("--before deploy", BEFORE),
        ("cdk deploy", "python -m operations.cleanup dev --after failed-deploy"),
        ("--after deploy", AFTER),
        ("operations.checkup", DOCTOR),
    ],
)
def test_a_failed_deploy_is_not_looked_at(deploy, step, last):
    """The status is that of the step that failed."""
    status, calls = deploy("dev", FAIL_AT=step, FAIL_WITH="4")
    assert (status, calls[-1]) == (4, last)


def test_after_ctrl_c_the_last_step_says_what_aws_continues(deploy):
    """The script ends with the status of an interrupted program, and runs no step of a success."""
    status, calls = deploy("dev", INTERRUPT="cdk deploy")
    assert (status, calls[-1]) == (130, "python -m operations.cleanup dev --after failed-deploy")
    assert AFTER not in calls


def test_all_steps_use_one_region(deploy, tmp_path):
    """The CDK's command prefers AWS_REGION; Python's botocore does not read it."""
    assert deploy("dev", AWS_REGION="eu-central-1", AWS_DEFAULT_REGION="us-east-1")[0] == 0
    assert {*(tmp_path / "calls.region").read_text().split()} == {"eu-central-1"}
    (tmp_path / "calls.region").unlink()
    assert deploy("dev", AWS_REGION="", AWS_DEFAULT_REGION="us-east-1")[0] == 0
    assert {*(tmp_path / "calls.region").read_text().split()} == {"us-east-1"}


ASKS = "python -m operations.cleanup dev --before destroy"
DESTROY = "cdk destroy --all -c environment=dev --force"


def test_destroy_asks_before_the_cdk_is_called(script):
    """The script ends if the user refuses."""
    assert script("destroy", "dev", FAIL_AT="--before") == (1, [ASKS])


@pytest.mark.parametrize(
    ("options", "asks", "destroys"),
    [
        (["--verbose"], ASKS, f"{DESTROY} --verbose"),
        (["--force"], f"{ASKS} --force", DESTROY),
        (["-f"], f"{ASKS} --force", DESTROY),
    ],
)
def test_destroy_asks_once(script, options, asks, destroys):
    """The CDK asks nothing, because the user has confirmed, or forces it, as CI needs."""
    after = "python -m operations.cleanup dev --after destroy"
    assert script("destroy", "dev", *options) == (0, [asks, destroys, after])


def test_what_the_file_no_longer_has_is_destroyed_without_the_cdk(script):
    """The CDK's command would destroy the stacks that the file has."""
    assert script("destroy", "dev", "--removed") == (0, [f"{ASKS} --removed"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"FAIL_AT": "destroy --all"}, 1), ({"INTERRUPT": "destroy --all"}, 130)],
)
def test_a_failed_destroy_fails_and_is_not_reported_as_done(script, tmp_path, given, expected):
    """The command after a destroy runs only if it succeeded. The last line says what continues."""
    status, calls = script("destroy", "dev", "--force", **given)
    assert (status, calls[-1]) == (expected, DESTROY)
    assert (
        (tmp_path / "errors")
        .read_text()
        .endswith(
            "error: dev was not destroyed; 'scripts/destroy dev' continues, 'scripts/deploy dev' "
            "restores the missing parts\n"
        )
    )
