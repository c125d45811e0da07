"""The checks of what the running image answers, beside this machine's own processor."""

import json
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from image_rehearsal.contents import unloaded
from image_rehearsal.layers import LARGE_BYTES
from image_rehearsal.runtime import event, run_here, run_inside, running
from image_rehearsal.subject import Subject, some
from image_rehearsal.vectors import COSINE, TEXTS, body_of, least_cosine, vectors_of

__all__ = ["check_answers", "check_other_precision"]

_TASK = PurePosixPath("/var/task")
_BY = "the emulator in the container"


def check_answers(subject: Subject) -> None:
    """Check token ids, plain answers and vectors with the image's own artifact."""
    here = _here(subject)
    texts = json.dumps(TEXTS).encode()
    with subject.report.step("tokenizing in the container and here"):
        inside = run_inside(
            subject.docker,
            subject.asset.tag,
            ["/probe.py", "tokens"],
            environment=subject.variables,
            stdin=texts,
        )
        outside = run_here(["/probe.py", "tokens"], environment=here, stdin=texts)
    ids = json.loads(inside)
    subject.report.check(
        "tokenizer",
        f"token ids of {len(TEXTS)} texts equal this machine's",
        ids == json.loads(outside) and all(ids),
        by="the image's tokenizer in both places",
        found=f"{sum(map(len, ids))} ids",
    )
    with subject.report.step("asking which libraries a start loads"):
        _check_libraries(subject)
    with subject.report.step("starting the image under its emulator and asking it"):
        _check_service(subject, here)


def check_other_precision(subject: Subject) -> None:
    """Compile the same model in the other precision here, and compare what it gives in both."""
    other = "fp32" if _precision(subject) == "int8" else "int8"
    artifact = subject.folder / other
    with subject.report.step(f"compiling the same model in {other}, and asking the image with it"):
        model = subject.asset.arguments["MODEL"]
        command = [sys.executable, "-m", "model_compiler", model, "--precision", other]
        done = subprocess.run(
            [*command, "--output", str(artifact)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"the model does not compile in {other}:\n{done.stderr[-3000:]}")
        variables = {**subject.variables, "EMBEDDING_ARTIFACT": "/compiled"}
        mounts = {artifact: "/compiled"}
        with running(
            subject.docker, subject.asset.tag, environment=variables, mounts=mounts
        ) as container:
            answers = container.invoke(_embed_events())
        here = {**_here(subject), "EMBEDDING_ARTIFACT": str(artifact)}
        _compare(subject, answers, here, other, "the same model compiled here, mounted")


def _here(subject: Subject) -> dict[str, str]:
    """Unpack the image's code and artifact, to run with this machine's libraries and processor."""
    task = subject.folder / "task"
    for layer in subject.image.own if not task.is_dir() else ():
        for part in ("artifact", "index", "embedder"):
            for path, content in subject.image.read(layer, f"{_TASK}/{part}/"):
                place = task / path.relative_to(_TASK)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
    return {**subject.variables, "LAMBDA_TASK_ROOT": str(task), "PATH": "/usr/bin:/bin"}


def _precision(subject: Subject) -> str:
    manifest = Path(_here(subject)["LAMBDA_TASK_ROOT"]) / "artifact" / "manifest.json"
    return str(json.loads(manifest.read_text())["precision"])


def _check_service(subject: Subject, here: dict[str, str]) -> None:
    report = subject.report
    asked = [
        event("GET", "/health"),
        event("POST", "/", b'{"text": ""}'),
        event("POST", "/similar", b'{"text": "a"}'),
    ]
    with running(subject.docker, subject.asset.tag, environment=subject.variables) as container:
        health, empty, similar = container.invoke(asked)
        answers = container.invoke(_embed_events())
        logs = container.logs()
    statuses = [answer.get("statusCode") for answer in (health, empty, similar)]
    report.check(
        "handler", "GET /health answers 200", statuses[0] == 200, by=_BY, found=statuses[0]
    )
    report.check(
        "handler",
        "an empty text is refused, and the answer says why",
        statuses[1] in {400, 422} and bool(body_of(empty)),
        by=_BY,
        found=statuses[1],
    )
    expected = 200 if subject.asset.arguments.get("TEXTS") else 404
    told = f"POST /similar answers {expected}"
    report.check("handler", told, statuses[2] == expected, by=_BY, found=statuses[2])
    leaked = [text for text in TEXTS if len(text) > 8 and text[:30] in logs]
    told = "no text of a request stands in the log"
    report.check("handler", told, not leaked and bool(logs), by="docker logs", found=some(leaked))
    _compare(subject, answers, here, _precision(subject), "the image's own artifact")


def _check_libraries(subject: Subject) -> None:
    asked = json.dumps(event("POST", "/", b'{"text": "hello world"}')).encode() + b"\n"
    told = run_inside(
        subject.docker,
        subject.asset.tag,
        ["/probe.py", "libraries"],
        environment=subject.variables,
        stdin=asked,
    )
    loaded = [PurePosixPath(path) for path in json.loads(told.splitlines()[-1])]
    files = [file for layer in subject.image.own for file in layer.files]
    idle = [str(path) for path in unloaded(files, loaded)]
    subject.report.check(
        "image",
        f"a start loads each shared library of {LARGE_BYTES / 1e6:.0f} MB or more",
        not idle and any(path.is_relative_to(_TASK) for path in loaded),
        by="/proc/self/maps in the container",
        found=some(idle),
    )


def _embed_events() -> list[dict[str, Any]]:
    return [event("POST", "/", json.dumps({"text": text}).encode()) for text in TEXTS]


def _compare(
    subject: Subject, answers: list[Any], here: dict[str, str], precision: str, artifact: str
) -> None:
    lines = "".join(json.dumps(asked) + "\n" for asked in _embed_events()).encode()
    told = run_here(["/probe.py", "answers"], environment=here, stdin=lines)
    own = [json.loads(line) for line in told.splitlines()]
    cosine = least_cosine(vectors_of(answers), vectors_of(own))
    subject.report.check(
        "vectors",
        f"{precision}, {artifact}: cosine to this machine's own ≥ {COSINE[precision]}",
        cosine >= COSINE[precision],
        by="the emulator in the container, the handler here",
        found=f"{cosine:.8f}",
    )
    spaces = sorted({str(body_of(answer).get("vector_space")) for answer in [*answers, *own]})
    subject.report.check(
        "vectors",
        f"{precision}: both name the same vector space",
        len(spaces) == 1 and spaces != ["None"],
        by="the answers",
        found=some(spaces),
    )
