"""The repository as it is deployed from: a copy, in which every change is named and told.

The rehearsal names a caller, changes the code once, and touches nothing of the user's own tree.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit

__all__ = ["Checkout", "copy_checkout"]

#: A model that no hub and nobody's terms are needed for.
_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
_LINKED = ("node_modules",)
_SOURCE_ROOTS = ("constructs", "lambda_image", "client", "local", "rehearsal", ".")
#: The stamp as scripts/setup itself computes it.
_STAMP = r"""
set -euo pipefail
eval "$(grep -E '^ *(python|stamp)=' scripts/setup)"
printf '%s\n' "$stamp" > .venv/stamp
"""


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """A copy of the repository.

    Attributes:
        root: Where it stands.
        environment: The environment that is rehearsed.
        changes: What differs from the user's own files, a sentence each.
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
        """Where Python finds the copy's own sources, before those that are installed."""
        return os.pathsep.join(str(self.root / part) for part in _SOURCE_ROOTS)

    def let_call(self, role_arn: str) -> None:
        """Name a role among the environment's callers."""
        document = tomlkit.parse(self.file.read_text())
        callers: Any = document.setdefault("callers", tomlkit.table())
        callers["roles"] = [*callers.get("roles", []), role_arn]
        self.file.write_text(tomlkit.dumps(document))
        self._tell(
            f"callers.roles: the rehearsal's own role {role_arn.rpartition('/')[2]} was added"
        )

    def serve_without_a_hub(self) -> None:
        """Serve the demo's model where the environment's own needs a hub or somebody's terms."""
        document = tomlkit.parse(self.file.read_text())
        model: Any = document["model"]
        if str(model["name"]) == _MODEL:
            return
        self._tell(f"model.name: {model['name']} was replaced by {_MODEL}, which needs no hub")
        document["model"] = tomlkit.item({"name": _MODEL})
        self.file.write_text(tomlkit.dumps(document))

    def unprotect(self) -> None:
        """Let the stacks be deleted."""
        document = tomlkit.parse(self.file.read_text())
        document["protect"] = False
        self.file.write_text(tomlkit.dumps(document))
        self._tell("protect: set to false later, or nothing could be destroyed")

    def change_code(self) -> None:
        """Change the embedder's code, as a commit would, without changing what it does."""
        handler = self.root / "lambda_image" / "embedder" / "handler.py"
        handler.write_text(handler.read_text() + "\n# Changed by the rehearsal.\n")

    def _tell(self, change: str) -> None:
        self.changes.append(f"environments/{self.environment}.toml: {change}")


def copy_checkout(source: Path, folder: Path, environment: str) -> Checkout:
    """Copy what git knows or would add, and link what setup has installed.

    Args:
        source: The repository.
        folder: Where the copy goes; it must not exist.
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
    # A folder of links, and a stamp of its own: the scripts find what is installed to be up to
    # date, and so install nothing through the links into the user's own environment.
    (folder / ".venv").mkdir()
    for entry in (source / ".venv").iterdir():
        if entry.name == "pyvenv.cfg":
            shutil.copy2(entry, folder / ".venv" / entry.name)
        elif entry.name != "stamp":
            (folder / ".venv" / entry.name).symlink_to(entry)
    subprocess.run(["bash", "-c", _STAMP], cwd=folder, check=True)
    return Checkout(root=folder, environment=environment)
