"""A run of `scripts/prove`: the file of its environment, and the results of its finished steps.

The environment is another one than the user's, `NAME-prove`, so no run changes or deletes what the
user has deployed. Both files outlive the process, so the same command continues an interrupted
run.
"""

import json
from pathlib import Path
from typing import Any

import tomlkit

#: Tables of parts that are not measured, cost money, or may exist once.
_WITHOUT = ("alarms", "batch", "budget", "experiment", "front", "server")


class Run:
    """The run for an environment: the name and file of its copy, and the results by step."""

    def __init__(self, source: str, root: Path) -> None:
        self.name = f"{source}-prove"
        self.file = root / "environments" / f"{self.name}.toml"
        self._state = root / ".cache" / "prove" / f"{source}.json"
        self.done: dict[str, Any] = {}
        if self.exists:
            self.done = json.loads(self._state.read_text(encoding="utf-8"))

    @property
    def exists(self) -> bool:
        """Whether the run has begun and not ended."""
        return self._state.is_file()

    def begin(self, content: str) -> None:
        """Write the environment's file. The state comes first: it says that the file is a run's."""
        self._write_state()
        self.file.write_text(content, encoding="utf-8")

    def finish(self, step: str, result: Any) -> None:
        """Keep the result of a step."""
        self.done[step] = result
        self._write_state()

    def end(self) -> None:
        """Remove both files."""
        self.file.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)

    def _write_state(self) -> None:
        self._state.parent.mkdir(parents=True, exist_ok=True)
        written = self._state.with_suffix(".new")
        written.write_text(json.dumps(self.done), encoding="utf-8")
        written.replace(self._state)


def derived(content: str, *, account: str, region: str) -> str:
    """Return the file of a run's environment."""
    document = tomlkit.parse(content.removeprefix("\ufeff"))
    for table in _WITHOUT:
        document.pop(table, None)
    # A function's share of the account's concurrency may be taken by the user's own environment.
    document.get("function", {}).pop("reserved_concurrency", None)
    # A schedule could change the capacity during the run.
    document.get("cold_start", {}).pop("schedule", None)
    settings = {
        "account": account,
        "region": region,
        "removal_policy": "destroy",
        "termination_protection": False,
    }
    for key in settings:
        document.pop(key, None)
    return f"{tomlkit.dumps(settings)}{tomlkit.dumps(document)}"
