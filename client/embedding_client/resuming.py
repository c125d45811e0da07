"""Whether a run may continue with the vectors of an earlier one."""

from collections.abc import Iterator, Mapping
from typing import Any

from embedding_client.errors import FileError
from embedding_client.vector_log import VectorLog

__all__ = ["check_resumes"]


def check_resumes(log: VectorLog, job: Mapping[str, Any], *, name: str) -> None:
    """Checks that the vectors in a log are those that a job would make.

    `truncate` may change from `refuse` or nothing to `right` or `left`: that is how a run goes on
    that a long text has stopped. No vector so far depends on it.

    Raises:
        FileError: they are not; the message says what differs.
    """
    differences = list(_differences(log.job or {}, job, name))
    if differences:
        raise FileError(
            f"{log.path} holds {log.rows} rows of another run: {'; '.join(differences)}. To "
            "continue that run, give its file and options again. To begin again, delete "
            f"{log.path}."
        )


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> Iterator[str]:
    source, options = old.get("source", {}), old.get("options", {})
    if source.get("sha256") != new["source"]["sha256"]:
        yield f"the content of {name} is not the same"
    for key in ("format", "column"):
        yield from _changed(key, source.get(key), new["source"][key])
    for key, value in new["options"].items():
        before = options.get(key)
        cut_now = key == "truncate" and before in {None, "refuse"} and value in {"right", "left"}
        if not cut_now:
            yield from _changed(key.replace("_", "-"), before, value)


def _changed(flag: str, before: object, now: object) -> Iterator[str]:
    if before != now:
        yield f"--{flag} was {before or 'not given'} and is {now or 'not given'}"
