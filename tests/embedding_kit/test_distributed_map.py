"""Test that the constructs name what the image has: they import no code of it."""

import importlib.util
from pathlib import Path

import pytest

from embedding_kit import ingestion
from embedding_kit.jobs import BATCH_PROGRAM, LOAD_PROGRAM
from jobs.embed import job
from jobs.ingest import run as ingest
from jobs.load import run as load

PROGRAMS = (BATCH_PROGRAM, LOAD_PROGRAM, ingestion.PROGRAM)


@pytest.mark.parametrize("handler", [*(each.handler for each in PROGRAMS), ingestion.WATCH_HANDLER])
def test_a_handler_is_in_the_image(handler):
    """Its source is read: it loads a model when it is imported."""
    module, _, function = handler.rpartition(".")
    source = Path(importlib.util.find_spec(module).origin).read_text()
    assert f"\n{function} = " in source or f"\ndef {function}(" in source


@pytest.mark.parametrize(
    ("program", "frame", "folder"),
    [
        (BATCH_PROGRAM, job.FRAME, ""),
        (LOAD_PROGRAM, load.FRAME, "_load/*/"),
        (ingestion.PROGRAM, ingest.FRAME, "reconcile/*/"),
    ],
)
def test_the_files_of_a_plan_are_those_of_the_image(program, frame, folder):
    """The state machine reads the plan, and writes the results."""
    files = (f"{folder}{frame.items_file}", f"{folder}{frame.results_folder}")
    assert (program.plan, program.results) == files
