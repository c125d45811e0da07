"""The vector space, and the golden vectors of the artifact."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from embedding_client.doctor.facts import Facts, NoAnswer
from embedding_client.doctor.findings import Finding, SkippedError, ill, ok
from embedding_client.errors import VectorSpaceError
from embedding_client.used_spaces import read_spaces, write_spaces
from embedding_client.vector_spaces import VectorSpaceGuard

__all__ = [
    "Spaces",
    "check_golden",
    "check_space",
    "judge_golden",
    "judge_space",
]

#: As in the check of a release: int8 kernels of two processors differ by thousandths, and two
#: models by as much as the components themselves.
_TOLERANCE = 0.01


class Spaces(NamedTuple):
    """The vector space that the endpoint serves, and those it should be.

    Attributes:
        served: That of the endpoint's answer.
        stored: That of the stored vectors, which the caller gave.
        last: That of the last use from this machine.
        recorded: That of the last deploy.
        artifact: That of the folder with the compiled model.
    """

    served: str
    stored: str | None = None
    last: str | None = None
    recorded: str | None = None
    artifact: str | None = None


def check_space(facts: Facts) -> Finding:
    """Compare the vector space of an answer, and remember it."""
    served = facts.answered().headers["x-vector-space"]
    file, url = facts.outside.memory, facts.url()
    known = read_spaces(file)
    recorded = None
    with suppress(SkippedError):
        outputs = facts.outputs()
        recorded = next((outputs[key] for key in outputs if "VectorSpace" in key), None)
    finding = judge_space(
        Spaces(
            served=served,
            stored=facts.asked.vector_space,
            last=None if facts.asked.accept_vector_space else known.get(url),
            recorded=recorded if recorded != "unknown" else None,
            artifact=_artifact(facts.asked.artifact)["vector_space"]
            if facts.asked.artifact
            else None,
        )
    )
    if known.get(url) is None or facts.asked.accept_vector_space:
        write_spaces(file, known | {url: served})
    return finding


def judge_space(spaces: Spaces) -> Finding:
    """Judge the vector space by those that it should be."""
    compared = {
        "of the stored vectors (--vector-space)": spaces.stored,
        "of the last use from this machine": spaces.last,
        "of the last deploy": spaces.recorded,
        "of the artifact": spaces.artifact,
    }
    known = {name: space for name, space in compared.items() if space is not None}
    for name, space in known.items():
        if not _same(space, spaces.served):
            advice = (
                "you cannot compare vectors of the two: deploy the previous version "
                "(scripts/rollback), or embed all stored texts again"
            )
            if name.startswith("of the last use"):
                advice += "; then --accept-vector-space"
            return ill(f"{spaces.served}, and {space} is that {name}", advice, served=spaces.served)
    like = f"; equal to that {', '.join(known)}" if known else "; remembered for the next time"
    return ok(f"{spaces.served}{like}", served=spaces.served)


def check_golden(facts: Facts) -> Finding:
    """Compare the endpoint's vectors with those that the compiler has computed."""
    facts.answered()
    golden = (
        _artifact(facts.asked.artifact)["golden"]
        if facts.asked.artifact
        else facts.info().get("golden")
    )
    if not golden:
        raise SkippedError("the endpoint does not list its golden vectors: give --artifact FOLDER")
    return judge_golden(golden, [_embedded(facts, entry) for entry in golden])


def judge_golden(
    golden: Sequence[Mapping[str, Any]], vectors: Sequence[Sequence[float]]
) -> Finding:
    """Judge the largest difference of a component from its golden value."""
    worst = max(
        abs(wanted - found)
        for entry, vector in zip(golden, vectors, strict=True)
        for wanted, found in zip(entry["embedding_head"], vector, strict=False)
    )
    if worst <= _TOLERANCE:
        return ok(f"{len(golden)} texts, largest difference {worst:.4f}", difference=worst)
    return ill(
        f"a component differs from its golden value by {worst:.4f}; allowed: {_TOLERANCE}",
        "the function's vectors differ from the compiler's: deploy the previous version "
        "(scripts/rollback), and build the image without Docker's cache",
        difference=worst,
    )


def _embedded(facts: Facts, entry: Mapping[str, Any]) -> list[float]:
    body = {"text": entry["text"]} | ({"prompt_name": entry["prompt"]} if entry["prompt"] else {})
    reply = facts.send("POST", "/", json.dumps(body).encode())
    if isinstance(reply, NoAnswer) or reply.status != 200:
        raise SkippedError("the endpoint does not answer a golden text")
    vector: list[float] = json.loads(reply.body)["embedding"]
    return vector


def _same(expected: str, served: str) -> bool:
    try:
        VectorSpaceGuard(expected).check(served)
    except VectorSpaceError:
        return False
    return True


def _artifact(folder: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_bytes())
    except (OSError, ValueError) as error:
        raise SkippedError(f"{folder} is not an artifact: {error}") from error
    return manifest
