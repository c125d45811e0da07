"""Compare the vectors of a zip's endpoint with those of the image's endpoint beside it."""

from tools.rehearsal.deploy.callers import CALLER
from tools.rehearsal.deploy.calls import send
from tools.rehearsal.deploy.deployed import Outputs
from tools.rehearsal.deploy.emulator import Emulator
from tools.rehearsal.image.report import Report

__all__ = ["check_vectors"]

_TEXTS = ("hello, zip", "Wie spät ist es?")


def check_vectors(
    report: Report, aws: Emulator, ours: Outputs, beside: Outputs, *, subject: str
) -> None:
    """Check that both endpoints give the same vectors, to the last bit.

    Args:
        report: The report of the checks.
        aws: The emulated AWS.
        ours: The stacks of the zip.
        beside: The stacks of the image of the same model.
        subject: What the report calls the zip.
    """
    caller = aws.assume(f"arn:aws:iam::{aws.account}:role/{CALLER}")
    answers = [
        [send(aws, outputs["Url"], {"text": text}, who=caller) for text in _TEXTS]
        for outputs in (ours, beside)
    ]
    statuses = [answer.status for both in answers for answer in both]
    of_zip, of_image = (
        [(answer.json()["embedding"], answer.json()["vector_space"]) for answer in both]
        if set(statuses) == {200}
        else []
        for both in answers
    )
    report.check(
        subject,
        "the allowed role gets the vectors of the image beside it, to the last bit",
        bool(of_zip) and of_zip == of_image,
        by="signed requests through both URLs; both functions' own code and artifact",
        found=statuses,
    )
