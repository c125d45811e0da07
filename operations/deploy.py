"""Deploy an environment with the pinned CDK: checks, the deploy, and the doctor."""

import argparse
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

from botocore.session import Session

from embedding_kit.programs import exit_with
from operations import checkup, cleanup, older_file, preflight, promotion
from operations.cdk import run_cdk
from operations.command import command_parser, explained, report_errors, run_command
from operations.environment_session import may_ask, session_for
from operations.migration import OLDER_FILE
from operations.model_download import download_models
from operations.packages import store_stack
from operations.zip_build import build_zip
from stacks.environment import EnvironmentSettings


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status: that of the step that failed."""
    parser = command_parser("scripts/deploy", __doc__)
    parser.add_argument(
        "--image",
        metavar="ADDRESS",
        action="append",
        default=[],
        help="deploy an image or a zip as scripts/build prints it; once for each image",
    )
    parser.add_argument("--diff", action="store_true", help="only print what would change")
    parser.add_argument("--no-doctor", action="store_true", help="do not check it at the end")
    parser.add_argument(
        OLDER_FILE, action="store_true", help="deploy a file older than what is deployed"
    )
    parser.add_argument("-a", "--app", help="another app, or a synthesized assembly")
    return run_command(parser, _deploy, arguments, takes_cdk_options=True)


@dataclass
class Deploy:
    """A deploy: its environment, its options, and the session of AWS that all steps use."""

    environment: EnvironmentSettings
    options: argparse.Namespace
    #: The CDK's option for the accepted images.
    images: tuple[str, ...] = field(default=(), init=False)

    @cached_property
    def session(self) -> Session:
        """The session, after a question about the account if the file names none."""
        ask = may_ask(self.options.cdk_options)
        return session_for(self.environment, changes=not self.options.diff, ask=ask)

    def run_cdk(self, *arguments: str) -> None:
        """Run the CDK's command with the environment, and the options that are not our own."""
        app = ("--app", self.options.app) if self.options.app else ()
        context = f"environment={self.environment.argument}"
        run_cdk(*arguments, "-c", context, *app, *self.options.cdk_options)


#: A step prints what is wrong and returns the exit status, or raises it; 0 or None is a success.
Step = Callable[[Deploy], int | None]


def steps(options: argparse.Namespace) -> list[Step]:
    """Return the steps of a deploy, in their order."""
    is_own_app, promotes = not options.app, bool(options.image)
    if options.diff:
        needed: dict[Step, bool] = {
            download: is_own_app,
            check_place: is_own_app,
            check_images: promotes,
            show_difference: True,
        }
    else:
        needed = {
            download: is_own_app,
            check_account: True,
            check_age: is_own_app,
            build: not promotes,
            check_images: promotes,
            deploy_store: promotes,
            copy_images: promotes,
            prepare_alias: True,
            deploy_stacks: True,
            clean_up: True,
            check_up: not options.no_doctor,
        }
    return [step for step, is_needed in needed.items() if is_needed]


def _deploy(environment: EnvironmentSettings, options: argparse.Namespace) -> int:
    if options.app and options.image:
        raise ValueError(
            "only this repository's own app deploys --image; found: --image with --app; allowed: "
            "one of them; nothing was deployed"
        )
    deploy = Deploy(environment, options)
    for step in steps(options):
        status = step(deploy)
        if status:
            return status
    return 0


def download(deploy: Deploy) -> None:
    """Download a model's folder from S3: synth finds it on this machine."""
    download_models(deploy.environment, lambda: deploy.session)


def check_place(deploy: Deploy) -> int:
    """Check the region and the credentials, which a comparison needs."""
    with explained("AWS does not accept the credentials"):
        return preflight.report(preflight.check_place(deploy.session, deploy.environment))


def check_account(deploy: Deploy) -> int:
    """Check for problems that would make the deploy fail halfway."""
    imports = preflight.IMPORT in deploy.options.cdk_options
    builds = not deploy.options.image
    with explained("AWS does not accept the credentials"):
        return preflight.report(
            preflight.before_deploy(
                deploy.session, deploy.environment, imports=imports, builds=builds
            )
        )


def check_age(deploy: Deploy) -> None:
    """Ask before a file goes back to before the deployed release."""
    if not deploy.options.allow_older_file:
        ask = may_ask(deploy.options.cdk_options)
        older_file.check_age(deploy.session, deploy.environment, ask=ask)


def build(deploy: Deploy) -> int:
    """Build a zip, if there is one. The CDK builds images."""
    # An assembly has a recipe, which may differ from this folder's.
    return 0 if deploy.options.app else build_zip(deploy.environment)


def check_images(deploy: Deploy) -> None:
    """Refuse images before anything changes."""
    _promote(deploy, check=True)


def deploy_store(deploy: Deploy) -> None:
    """Deploy the repository or the bucket that gets the images."""
    store = store_stack(deploy.environment)
    if store:
        deploy.run_cdk("deploy", store, "--exclusively")


def copy_images(deploy: Deploy) -> None:
    """Copy the images into the environment's own repository or bucket."""
    _promote(deploy, check=False)


def _promote(deploy: Deploy, *, check: bool) -> None:
    try:
        with explained("the images could not be looked up"):
            images = promotion.images_context(
                deploy.session, deploy.environment, deploy.options.image, check=check
            )
    except ValueError as error:
        raise ValueError(f"{error}; nothing was deployed") from error
    deploy.images = ("-c", f"images={images}")


def prepare_alias(deploy: Deploy) -> None:
    """Refuse weights of an earlier release on the alias, and resume suspended scaling.

    AWS refuses a release while there are such weights. An unfinished destroy leaves the scaling
    suspended.
    """
    with explained(_unread(deploy)):
        cleanup.before_deploy(deploy.session, deploy.environment)


def deploy_stacks(deploy: Deploy) -> None:
    """Deploy all stacks. After Ctrl-C, AWS continues: the last lines say with what."""
    try:
        deploy.run_cdk("deploy", "--all", *deploy.images)
    except subprocess.CalledProcessError:
        report_errors(
            partial(cleanup.after_failed_deploy, deploy.session, deploy.environment),
            failure=_unread(deploy),
        )
        raise


def clean_up(deploy: Deploy) -> None:
    """End provisioned concurrency that was turned off, which stays allocated and billed."""
    with explained(_unread(deploy)):
        cleanup.after_deploy(deploy.session, deploy.environment)


def _unread(deploy: Deploy) -> str:
    return f"{deploy.environment.argument} could not be looked through"


def check_up(deploy: Deploy) -> int:
    """Run the doctor."""
    return checkup.check_up(deploy.environment)


def show_difference(deploy: Deploy) -> None:
    """Print what the same command without `--diff` would change."""
    deploy.run_cdk("diff", *deploy.images)


if __name__ == "__main__":
    exit_with(main)
