"""Run the pinned CDK CLI and the project's scripts against the emulated AWS."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.rehearsal.deploy.checkout import Checkout
from tools.rehearsal.deploy.emulator import Emulator
from tools.rehearsal.image.report import Report

__all__ = ["Cdk", "Finished", "check_success"]

_QUIET = ("--no-notices", "--no-color")


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A finished command: its exit status, its output, and its duration in seconds."""

    status: int
    output: str
    seconds: float

    def count(self, pattern: str) -> int:
        """Count the matches of a pattern in the output."""
        return len(re.findall(pattern, self.output))

    def tail(self, lines: int = 12) -> str:
        """Return the last lines of the output as one."""
        last = self.output.splitlines()[-lines:]
        return " / ".join(line.strip() for line in last if line.strip())


@dataclass(frozen=True, kw_only=True)
class Cdk:
    """Run commands in a copy of the repository.

    Attributes:
        checkout: The copy.
        aws: The emulated AWS.
        docker: The program that the CLI calls as `docker`.
    """

    checkout: Checkout
    aws: Emulator
    docker: Path

    @property
    def assembly(self) -> Path:
        """The folder in which the CLI has the app synthesize."""
        return self.checkout.root / "cdk.out"

    def bootstrap(self) -> Finished:
        """Bootstrap the account and region."""
        place = f"aws://{self.aws.account}/{self.aws.region}"
        return self._cdk("bootstrap", place)

    def deploy(self, assembly: Path | None = None, *, options: Sequence[str] = ()) -> Finished:
        """Run `scripts/deploy`, without the doctor: the emulated URL has no address in DNS.

        Args:
            assembly: A synthesized assembly; the app synthesizes one if None.
            options: Further options of the script.
        """
        command = ["scripts/deploy", self.checkout.environment, "--no-doctor", *options]
        ours = ["--require-approval", "never", "--progress", "events", *_QUIET, *_app(assembly)]
        return self._run([*command, *ours])

    def diff(self, assembly: Path | None = None) -> Finished:
        """Compare every stack with the deployed one; the status is 1 if something differs.

        Args:
            assembly: A synthesized assembly; the app synthesizes one if None.
        """
        return self._cdk("diff", "--fail", *_app(assembly))

    def destroy(self, assembly: Path | None = None, *, answer: str | None = None) -> Finished:
        """Run `scripts/destroy`, with `--force` or with an answer to its question.

        Args:
            assembly: A synthesized assembly; the app synthesizes one if None.
            answer: The answer to its question; `--force` if None.
        """
        command = ["scripts/destroy", self.checkout.environment, *_QUIET, *_app(assembly)]
        return self._run(command if answer else [*command, "--force"], answer=answer)

    def roll_back(self) -> Finished:
        """Run `scripts/rollback`."""
        return self._run(["scripts/rollback", self.checkout.environment])

    def template_of_bootstrap(self) -> Finished:
        """Print the template that `cdk bootstrap` deploys."""
        return self._cdk("bootstrap", "--show-template")

    def _cdk(self, command: str, *arguments: str) -> Finished:
        program = str(self.checkout.root / "scripts" / "node_modules" / ".bin" / "cdk")
        context = ["-c", f"environment={self.checkout.environment}"]
        return self._run([program, command, *arguments, *context, *_QUIET])

    def _run(self, command: list[str], *, answer: str | None = None) -> Finished:
        root = self.checkout.root
        path = f"{root / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        variables = {
            **self.aws.variables(),
            "PATH": path,
            # The copy's sources come before those of the installed checkout.
            "PYTHONPATH": self.checkout.python_path,
            # The copy's .venv is a link; a setup would install the copy into the user's .venv.
            "UV_NO_SYNC": "1",
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


def check_success(report: Report, command: str, done: Finished) -> bool:
    """Check that a command has succeeded, and print its output if not."""
    if done.status:
        print(done.output[-8000:], file=sys.stderr)
    found = f"{done.seconds:.0f} s" if done.status == 0 else f"status {done.status}"
    return report.check(command, "succeeds", done.status == 0, by="the pinned CDK CLI", found=found)


def _app(assembly: Path | None) -> list[str]:
    return ["--app", str(assembly)] if assembly else []


def _at_a_terminal(command: list[str], answer: str) -> list[str]:
    """Run a command in a pseudo-terminal, and answer its question with one line."""
    return [sys.executable, "-m", "tools.rehearsal.deploy.terminal", answer, *command]
