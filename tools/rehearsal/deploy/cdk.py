"""Run the pinned CDK CLI and the project's scripts in a copy of the repository."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import tomlkit

from stacks.names import endpoint_stack_name, observability_stack_name
from tools.rehearsal.deploy.emulator import Emulator
from tools.rehearsal.report import Report

#: The endpoint's code that the rehearsal changes.
HANDLER = Path("lambda_image", "embedder", "aws_lambda", "handler.py")
_LINKED = (".venv", "scripts/node_modules")
_SOURCE_ROOTS = ("constructs", "lambda_image", "client", ".")
_QUIET = ("--no-notices", "--no-color")


@dataclass(frozen=True)
class Checkout:
    """A copy of the repository in a folder, of which the environment of a name is deployed."""

    root: Path
    environment: str

    @property
    def file(self) -> Path:
        """The environment's file."""
        return self.root / "environments" / f"{self.environment}.toml"

    @property
    def python_path(self) -> str:
        """The PYTHONPATH with the copy's sources, which come before the installed ones."""
        return os.pathsep.join(str(self.root / source_root) for source_root in _SOURCE_ROOTS)

    @contextmanager
    def edit(self) -> Iterator[tomlkit.TOMLDocument]:
        """Yield the environment's file, and write it at the end of the block."""
        document = tomlkit.parse(self.file.read_text())
        yield document
        self.file.write_text(tomlkit.dumps(document))

    def change_code(self) -> None:
        """Change the embedder's code without changing its behavior."""
        handler = self.root / HANDLER
        handler.write_text(handler.read_text() + "\n# Changed by the rehearsal.\n")


def copy_files(source: Path, folder: Path) -> None:
    """Copy what .gitignore does not name; a downloaded folder is no Git repository."""
    lines = (source / ".gitignore").read_text("utf-8").splitlines()
    ignored = [".git", *(line.rstrip("/") for line in lines if line)]

    def left_out(place: str, names: list[str]) -> set[str]:
        # A pattern that begins with a slash is for paths from the root.
        below = "/" + "".join(f"{folder}/" for folder in Path(place).relative_to(source).parts)
        return {
            name
            for name in names
            if any(fnmatch(below + name if p[0] == "/" else name, p) for p in ignored)
        }

    shutil.copytree(source, folder, ignore=left_out, dirs_exist_ok=True)


def copy_checkout(source: Path, folder: Path, environment: str) -> Checkout:
    """Copy the files of a checkout, and link the installed packages."""
    copy_files(source, folder)
    for name in _LINKED:
        (folder / name).symlink_to(source / name)
    return Checkout(folder, environment)


@dataclass(frozen=True)
class Finished:
    """A finished command: its exit status and its output."""

    status: int
    output: str

    def count(self, pattern: str) -> int:
        """Count the matches of a pattern in the output."""
        return len(re.findall(pattern, self.output))

    def last(self, words: str = "") -> str:
        """Return the last line that has some words, and the status after a failure."""
        lines = [line.strip() for line in self.output.splitlines() if words in line]
        status = f" (status {self.status})" if self.status else ""
        return f"{lines[-1][:300] if lines else f'nothing about {words}'}{status}"


@dataclass(frozen=True, kw_only=True)
class Cdk:
    """Runs commands for an environment, as steps of the report; the CLI calls `docker`."""

    report: Report
    checkout: Checkout
    aws: Emulator
    docker: Path

    @property
    def assembly(self) -> Path:
        """The folder in which the CLI has the app synthesize."""
        return self.checkout.root / "cdk.out"

    def bootstrap(self) -> Finished:
        """Bootstrap the account and region."""
        return self._cdk("bootstrap", f"aws://{self.aws.account}/{self.aws.region}")

    def diff(self, why: str) -> Finished:
        """Compare every stack with the deployed one; the status is 1 if something differs."""
        return self._cdk("diff", "--fail", why=why)

    def deploy(self, why: str, *options: str, assembly: Path | None = None) -> Finished:
        """Run `scripts/deploy`, without the doctor: the emulated URL has no address in DNS."""
        ours = ("--no-doctor", "--require-approval", "never", "--progress", "events", *_QUIET)
        app = ["--app", str(assembly)] if assembly else []
        return self.run(["scripts/deploy", self.checkout.environment, *options, *ours, *app], why)

    def destroy(self, why: str) -> Finished:
        """Run `scripts/destroy --force` with the assembly of the last deploy."""
        command = ["scripts/destroy", self.checkout.environment, "--force", *_QUIET]
        return self.run([*command, "--app", str(self.assembly)], why)

    def roll_back(self, why: str) -> Finished:
        """Run `scripts/rollback`."""
        return self.run(["scripts/rollback", self.checkout.environment], why)

    def succeeded(self, done: Finished) -> None:
        """Check that a command has succeeded, which what follows needs; print its output if not."""
        if done.status:
            print(done.output[-8000:], flush=True)
        self.report.need("the command succeeds", done.status == 0, done.last())

    def outputs(self) -> dict[str, str]:
        """Return the outputs of the endpoint's stack and of the alarms'."""
        name = self.checkout.environment
        endpoint = self.aws.outputs(endpoint_stack_name(name))
        return endpoint | self.aws.outputs(observability_stack_name(name))

    def _cdk(self, command: str, *arguments: str, why: str = "") -> Finished:
        program = str(self.checkout.root / "scripts" / "node_modules" / ".bin" / "cdk")
        context = ("-c", f"environment={self.checkout.environment}")
        return self.run([program, command, *arguments, *context, *_QUIET], why)

    def variables(self) -> dict[str, str]:
        """Return the environment variables of a command in the copy, for the emulated AWS."""
        root = self.checkout.root
        return {
            **self.aws.variables(),
            "PATH": f"{root / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
            # The copy's sources come before those of the installed checkout.
            "PYTHONPATH": self.checkout.python_path,
            # The copy's .venv is a link; a setup would install the copy into the user's .venv.
            "UV_NO_SYNC": "1",
            "CDK_DOCKER": str(self.docker),
            "NODE_USE_SYSTEM_CA": "1",
        }

    def run(self, command: list[str], why: str = "") -> Finished:
        """Run a command in the copy."""
        name = " ".join([command[0].rpartition("/")[2], command[1]])
        with self.report.step(f"{name} ({why})" if why else name):
            done = subprocess.run(
                command,
                cwd=self.checkout.root,
                env=self.variables(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
        return Finished(done.returncode, done.stdout)
