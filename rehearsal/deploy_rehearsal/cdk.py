"""The pinned CDK CLI and the project's own scripts, run against the emulated AWS."""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from deploy_rehearsal.checkout import Checkout
from deploy_rehearsal.emulator import Emulator

__all__ = ["Cdk", "Finished"]

_QUIET = ("--no-notices", "--no-color")


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A command that has ended: its exit status, what it wrote, and its seconds."""

    status: int
    output: str
    seconds: float

    def count(self, pattern: str) -> int:
        """Count the matches of a pattern in what it wrote."""
        return len(re.findall(pattern, self.output))


@dataclass(frozen=True, kw_only=True)
class Cdk:
    """Runs commands in a copy of the repository.

    Attributes:
        checkout: The copy.
        aws: The emulated AWS.
        docker: The program that the CLI calls as `docker`.
    """

    checkout: Checkout
    aws: Emulator
    docker: Path

    def bootstrap(self) -> Finished:
        """Bootstrap account and region."""
        place = f"aws://{self.aws.account}/{self.aws.region}"
        return self._cdk("bootstrap", place)

    def deploy(self, assembly: Path | None = None) -> Finished:
        """Deploy every stack, as a user does; of an assembly, where one was synthesized before."""
        asked = ["--require-approval", "never", "--progress", "events", *_QUIET]
        asked += ["--app", str(assembly)] if assembly else []
        return self._run(["scripts/deploy", self.checkout.environment, *asked])

    def diff(self) -> Finished:
        """Compare every stack with what stands; the status is 1 where something differs."""
        return self._cdk("diff", "--fail")

    def destroy(self, *, answer: str | None = None) -> Finished:
        """Destroy the environment, as a user does, who answers at a terminal or uses --force."""
        command = ["scripts/destroy", self.checkout.environment, *_QUIET]
        return self._run(command if answer else [*command, "--force"], answer=answer)

    def template_of_bootstrap(self) -> Finished:
        """Write the template that a bootstrap deploys."""
        return self._cdk("bootstrap", "--show-template")

    def _cdk(self, command: str, *arguments: str) -> Finished:
        program = str(self.checkout.root / "node_modules" / ".bin" / "cdk")
        context = ["-c", f"environment={self.checkout.environment}"]
        return self._run([program, command, *arguments, *context, *_QUIET])

    def _run(self, command: list[str], *, answer: str | None = None) -> Finished:
        root = self.checkout.root
        path = f"{root / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        variables = {
            **self.aws.variables(),
            "PATH": path,
            # The copy's own sources, before those of the checkout that is installed.
            "PYTHONPATH": self.checkout.python_path,
            "CDK_DOCKER": str(self.docker),
            "NODE_USE_SYSTEM_CA": "1",
        }
        start = time.monotonic()
        done = subprocess.run(
            _at_a_terminal(command, answer) if answer else command,
            cwd=root,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Finished(
            status=done.returncode, output=done.stdout, seconds=time.monotonic() - start
        )


def _at_a_terminal(command: list[str], answer: str) -> list[str]:
    """Run a command at a terminal of its own, where one line is typed once it asks."""
    return [sys.executable, "-m", "deploy_rehearsal.terminal", answer, *command]
