"""Build the images or the zip of an environment once, push them, and print their addresses.

The other environments that get them later are refused first if their settings differ.
"""

import argparse
import functools
import sys
from itertools import takewhile
from pathlib import Path

from botocore.session import Session

from embedding_kit.programs import exit_with
from operations import preflight
from operations.built_images import built_images, built_zip, check_accepts
from operations.cdk import run_cdk
from operations.command import command_parser, explained, read_environment, run_command
from operations.environment_session import may_ask, session_for
from operations.model_download import download_models
from operations.packages import store_stack
from stacks.environment import EnvironmentSettings
from stacks.names import has_repository_stack

_ASSEMBLY = Path(__file__).parents[1] / "cdk.out"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = command_parser("scripts/build", __doc__)
    parser.add_argument("others", nargs="*", help="the environments that get the images later")
    # The value of an option, such as that of --require-approval, is no environment.
    names = [*takewhile(lambda argument: not argument.startswith("-"), arguments)]
    cdk_options = arguments[len(names) :]

    def build(environment: EnvironmentSettings, options: argparse.Namespace) -> int:
        return _build(environment, [read_environment(name) for name in options.others], cdk_options)

    asks_for_help = {"-h", "--help"} & {*cdk_options}
    return run_command(parser, build, [*names, *asks_for_help])


def _build(
    environment: EnvironmentSettings, others: list[EnvironmentSettings], cdk_options: list[str]
) -> int:
    @functools.cache
    def session() -> Session:
        return session_for(environment, changes=True, ask=may_ask(cdk_options))

    # Synth finds a model's folder on this machine.
    download_models(environment, session)
    for receiver in others:
        download_models(receiver, functools.partial(session_for, receiver))
        check_accepts(receiver, environment)
    with explained("AWS does not accept the credentials"):
        imports = preflight.IMPORT in cdk_options
        findings = preflight.before_deploy(session(), environment, imports=imports, builds=True)
        if preflight.report(findings):
            return 1
    _publish(environment, cdk_options)
    with explained("what was built could not be looked up"):
        if environment.function.package == "zip":
            print(built_zip(session(), environment))
        else:
            print("\n".join(built_images(session(), environment, _ASSEMBLY)))
    return 0


def _publish(environment: EnvironmentSettings, cdk_options: list[str]) -> None:
    """Deploy the stack that the packages need first, and build and push the images.

    The stack is left unchanged if it is up to date. A zip is built and uploaded later.
    """

    def cdk(*arguments: str) -> None:
        context = f"environment={environment.argument}"
        run_cdk(*arguments, *cdk_options, "-c", context, to_stderr=True)

    store = store_stack(environment)
    existing = environment.existing.repository if environment.existing else None
    if store:
        cdk("deploy", store, "--exclusively", "--require-approval", "never")
    elif existing:
        cdk("synth", "--all", "--quiet")
    if existing or has_repository_stack(environment):
        cdk("publish-assets", "--all", "--unstable=publish-assets", "--app", "cdk.out")


if __name__ == "__main__":
    exit_with(main)
