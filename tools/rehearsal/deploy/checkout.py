"""A copy of the repository to deploy from, with a list of all changes to its settings.

The rehearsal adds a caller and changes the code in the copy. The user's files stay unchanged.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit

__all__ = ["Checkout", "copy_checkout"]

#: A model that needs no model hub and no accepted terms.
_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
_LINKED = (".venv", "scripts/node_modules")
_SOURCE_ROOTS = ("constructs", "lambda_image", "client", ".")


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """A copy of the repository.

    Attributes:
        root: Its folder.
        environment: The name of the environment.
        changes: The differences from the user's files, one sentence each.
    """

    root: Path
    environment: str
    changes: list[str] = field(default_factory=list)

    @property
    def file(self) -> Path:
        """The environment's file."""
        return self.root / "environments" / f"{self.environment}.toml"

    @property
    def python_path(self) -> str:
        """The PYTHONPATH with the copy's sources, which come before the installed ones."""
        return os.pathsep.join(str(self.root / part) for part in _SOURCE_ROOTS)

    def let_call(self, role_arn: str) -> None:
        """Add a role to the environment's callers."""
        document = tomlkit.parse(self.file.read_text())
        callers: Any = document.setdefault("callers", tomlkit.table())
        callers["roles"] = [*callers.get("roles", []), role_arn]
        self.file.write_text(tomlkit.dumps(document))
        self._record(
            f"callers.roles: the rehearsal's own role {role_arn.rpartition('/')[2]} was added"
        )

    def notify(self, email: str) -> None:
        """Add an address to the recipients of notices: without one there is no topic."""
        document = tomlkit.parse(self.file.read_text())
        alarms: Any = document.setdefault("alarms", tomlkit.table())
        alarms["emails"] = [*alarms.get("emails", []), email]
        self.file.write_text(tomlkit.dumps(document))
        self._record(f"alarms.emails: {email} was added")

    def use_demo_model(self) -> None:
        """Replace a model that needs a model hub or accepted terms by the demo's model."""
        document = tomlkit.parse(self.file.read_text())
        model: Any = document["model"]
        if str(model["name"]) == _MODEL:
            return
        self._record(f"model.name: {model['name']} was replaced by {_MODEL}, which needs no hub")
        document["model"] = tomlkit.item({"name": _MODEL})
        self.file.write_text(tomlkit.dumps(document))

    def unprotect(self) -> None:
        """Set `termination_protection = false`, so that the stacks can be deleted."""
        document = tomlkit.parse(self.file.read_text())
        document["termination_protection"] = False
        self.file.write_text(tomlkit.dumps(document))
        self._record("termination_protection: set to false before the destroy")

    def change_code(self) -> None:
        """Change the embedder's code without changing its behavior."""
        handler = self.root / "lambda_image" / "embedder" / "aws_lambda" / "handler.py"
        handler.write_text(handler.read_text() + "\n# Changed by the rehearsal.\n")

    def _record(self, change: str) -> None:
        self.changes.append(f"environments/{self.environment}.toml: {change}")


def copy_checkout(source: Path, folder: Path, environment: str) -> Checkout:
    """Copy the files that git tracks or would add, and link the installed packages.

    Args:
        source: The repository.
        folder: The folder of the copy, which must not exist.
        environment: The environment to rehearse.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=source,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (source / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, folder / name)
    for name in _LINKED:
        (folder / name).symlink_to(source / name)
    return Checkout(root=folder, environment=environment)
