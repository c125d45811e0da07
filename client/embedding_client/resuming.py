"""Checks whether a run may continue from the checkpoint of an earlier one."""

from collections.abc import Iterator, Mapping
from typing import Any

from embedding_client.checkpoint import Checkpoint
from embedding_client.errors import FileError

__all__ = ["check_resumes"]


def check_resumes(checkpoint: Checkpoint, job: Mapping[str, Any], *, name: str) -> None:
    """Check that a checkpoint holds vectors of the same job.

    `truncate` may change from `refuse` or none to `right` or `left`, so that a run can continue
    after a text that was too long. No vector in the checkpoint depends on it.

    Raises:
        FileError: If the job differs. The message lists the differences.
    """
    differences = list(_differences(checkpoint.job or {}, job, name))
    if differences:
        raise FileError(
            f"{checkpoint.path} holds {checkpoint.rows} rows of another run: "
            f"{'; '.join(differences)}. To continue that run, use its file and options. To start "
            f"again, delete {checkpoint.path}."
        )


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> Iterator[str]:
    source, options = old.get("source", {}), old.get("options", {})
    if source.get("sha256") != new["source"]["sha256"]:
        yield f"the content of {name} has changed"
    for key in ("format", "column"):
        yield from _changed(key, source.get(key), new["source"][key])
    for key in dict.fromkeys([*options, *new["options"]]):
        before, now = options.get(key), new["options"].get(key)
        starts_cutting = (
            key == "truncate" and before in {None, "refuse"} and now in {"right", "left"}
        )
        if not starts_cutting:
            yield from _changed(key.replace("_", "-"), before, now)


def _changed(flag: str, before: object, now: object) -> Iterator[str]:
    if before != now:
        yield f"--{flag} was {before or 'not given'} and is {now or 'not given'}"
