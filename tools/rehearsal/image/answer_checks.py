"""Checks of the running image's answers, compared with the same code on this machine."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from tools.rehearsal.image.contents import TASK, unloaded
from tools.rehearsal.image.image_under_test import ImageUnderTest, first_few, precision_of, unpacked
from tools.rehearsal.image.layers import LARGE_BYTES
from tools.rehearsal.image.runtime import embed_events, event, run_here, run_inside, running
from tools.rehearsal.image.vectors import (
    COSINE,
    SHORT_TEXTS,
    TEXTS,
    body_of,
    least_cosine,
    vectors_of,
)

__all__ = ["check_answers", "check_other_precision", "compare"]

_BY = "the emulator in the container"


def check_answers(tested: ImageUnderTest) -> None:
    """Check token ids, answers and vectors with the image's own artifact."""
    texts = json.dumps(TEXTS).encode()
    with tested.report.step("tokenizing in the container and here"):
        inside = run_inside(
            tested.docker,
            tested.asset.tag,
            ["/probe.py", "tokens"],
            environment=tested.variables,
            stdin=texts,
        )
        outside = run_here(["/probe.py", "tokens"], environment=_here(tested), stdin=texts)
    ids = json.loads(inside)
    tested.report.check(
        "tokenizer",
        f"token ids of {len(TEXTS)} texts equal this machine's",
        ids == json.loads(outside) and all(ids),
        by="the image's tokenizer in both places",
        found=f"{sum(map(len, ids))} ids",
    )
    with tested.report.step("listing the libraries that a start loads"):
        _check_libraries(tested)
    with tested.report.step("starting the image in its emulator and sending requests"):
        _check_service(tested)


def check_other_precision(tested: ImageUnderTest) -> None:
    """Compile the model in the other precision on this machine, and compare its vectors in both."""
    other = "fp32" if precision_of(tested) == "int8" else "int8"
    artifact = tested.folder / other
    with tested.report.step(f"compiling the same model in {other}, and running the image with it"):
        model = tested.asset.arguments["MODEL"]
        command = [sys.executable, "-m", "model_compiler", model, "--precision", other]
        done = subprocess.run(
            [*command, "--output", str(artifact)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"the model does not compile in {other}:\n{done.stderr[-3000:]}")
        variables = {**tested.variables, "EMBEDDING_ARTIFACT": "/compiled"}
        mounts = {artifact: "/compiled"}
        with running(
            tested.docker, tested.asset.tag, environment=variables, mounts=mounts
        ) as container:
            answers = container.invoke(embed_events(SHORT_TEXTS))
        compare(
            tested,
            answers,
            {"EMBEDDING_ARTIFACT": str(artifact)},
            other,
            texts=SHORT_TEXTS,
            artifact="the same model compiled here, mounted",
        )


def _here(tested: ImageUnderTest) -> dict[str, str]:
    """Return the variables that run the image's code and artifact with this machine's libraries."""
    return {**tested.variables, "LAMBDA_TASK_ROOT": str(unpacked(tested)), "PATH": "/usr/bin:/bin"}


def _check_service(tested: ImageUnderTest) -> None:
    report = tested.report
    asked = [
        event("GET", "/health"),
        event("POST", "/", b'{"text": ""}'),
        event("POST", "/similar", b'{"text": "a"}'),
    ]
    with running(tested.docker, tested.asset.tag, environment=tested.variables) as container:
        health, empty, similar = container.invoke(asked)
        answers = container.invoke(embed_events(TEXTS))
        logs = container.logs()
    statuses = [answer.get("statusCode") for answer in (health, empty, similar)]
    report.check(
        "handler", "GET /health answers 200", statuses[0] == 200, by=_BY, found=statuses[0]
    )
    report.check(
        "handler",
        "an empty text is refused with a reason",
        statuses[1] in {400, 422} and bool(body_of(empty)),
        by=_BY,
        found=statuses[1],
    )
    expected = 200 if tested.asset.arguments.get("TEXTS") else 404
    check = f"POST /similar answers {expected}"
    report.check("handler", check, statuses[2] == expected, by=_BY, found=statuses[2])
    leaked = [text for text in TEXTS if len(text) > 8 and text[:30] in logs]
    check = "no text of a request is in the log"
    report.check(
        "handler", check, not leaked and bool(logs), by="docker logs", found=first_few(leaked)
    )
    compare(
        tested,
        answers,
        {},
        precision_of(tested),
        texts=TEXTS,
        artifact="the image's own artifact",
    )


def _check_libraries(tested: ImageUnderTest) -> None:
    asked = json.dumps(event("POST", "/", b'{"text": "hello world"}')).encode() + b"\n"
    output = run_inside(
        tested.docker,
        tested.asset.tag,
        ["/probe.py", "libraries"],
        environment=tested.variables,
        stdin=asked,
    )
    loaded = [PurePosixPath(path) for path in json.loads(output.splitlines()[-1])]
    files = [file for layer in tested.image.own for file in layer.files]
    idle = [str(path) for path in unloaded(files, loaded)]
    tested.report.check(
        "image",
        f"a start loads each shared library of {LARGE_BYTES / 1e6:.0f} MB or more",
        not idle and any(path.is_relative_to(TASK) for path in loaded),
        by="/proc/self/maps in the container",
        found=first_few(idle),
    )


def compare(
    tested: ImageUnderTest,
    answers: list[Any],
    variables: Mapping[str, str],
    precision: str,
    *,
    texts: Sequence[str],
    artifact: str,
) -> None:
    """Check that answers of the image agree with those of its code on this machine.

    Args:
        tested: The image.
        answers: Its answers to one text each, with status and body.
        variables: Further variables for this machine's.
        precision: The precision of the artifact.
        texts: The texts.
        artifact: The artifact in the report.
    """
    here = {**_here(tested), **variables}
    lines = "".join(json.dumps(asked) + "\n" for asked in embed_events(texts)).encode()
    output = run_here(["/probe.py", "answers"], environment=here, stdin=lines)
    own = [json.loads(line) for line in output.splitlines()]
    cosine = least_cosine(vectors_of(answers), vectors_of(own))
    tested.report.check(
        "vectors",
        f"{precision}, {artifact}: cosine to this machine's vectors ≥ {COSINE[precision]}",
        cosine >= COSINE[precision],
        by="the container, and the handler here",
        found=f"{cosine:.8f}",
    )
    spaces = sorted({str(body_of(answer).get("vector_space")) for answer in [*answers, *own]})
    tested.report.check(
        "vectors",
        f"{precision}: both answers name the same vector space",
        len(spaces) == 1 and spaces != ["None"],
        by="the answers",
        found=first_few(spaces),
    )
