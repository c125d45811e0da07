"""Test that `contract.json` names what the code of the images has."""

import importlib.util
import inspect
from pathlib import Path

import pytest

import jobs.errors
from embedder.core.s3_vectors import SPACE_TAG
from embedder.core.settings import EmbedderSettings
from embedding_client import _index
from embedding_kit.programs import contract
from jobs.embed import job
from jobs.ingest import document_index
from jobs.ingest import run as ingest
from jobs.load import run as load


@pytest.mark.parametrize("handler", contract().handlers.values())
def test_a_handler_is_in_the_image(handler):
    """Its source is read: it loads a model when it is imported."""
    module, _, function = handler.rpartition(".")
    source = Path(importlib.util.find_spec(module).origin).read_text()
    assert f"\n{function} = " in source or f"\ndef {function}(" in source


def test_step_functions_know_each_class_of_a_jobs_errors():
    """Step Functions knows an error by the name of its class, and tries unknown ones again."""
    classes = {error.__name__ for error in _errors(jobs.errors)} | {
        document_index.BusyDocumentError.__name__
    }
    errors = contract().errors
    assert errors.keys() == {"final", "passing"}
    assert sorted([*errors["final"], *errors["passing"]]) == sorted(classes)


def test_what_passes_is_an_unavailable_service():
    """Other errors of jobs are those of the input, the settings, the model or the index."""
    passing = {
        error.__name__
        for error in (*_errors(jobs.errors), *_errors(document_index))
        if issubclass(error, jobs.errors.UnavailableError)
    }
    assert set(contract().errors["passing"]) == passing


def _errors(module):
    return [
        error
        for _, error in inspect.getmembers(module, inspect.isclass)
        if issubclass(error, jobs.errors.BatchError) and error.__module__ == module.__name__
    ]


@pytest.mark.parametrize(
    ("name", "frame", "folder"),
    [
        ("embed", job.LAYOUT, ""),
        ("load", load.LAYOUT, "_load/*/"),
        ("ingest", ingest.LAYOUT, "reconcile/*/"),
    ],
)
def test_the_files_of_a_plan_are_those_of_the_image(name, frame, folder):
    """The state machine reads the plan, and writes the results."""
    files = contract().jobs[name]
    assert files.plan == f"{folder}{frame.items_file}"
    assert files.results == f"{folder}{frame.results_folder}"
    assert f"{files.item}s" == frame.items


def test_the_embedder_knows_each_variable():
    """It refuses a variable of its prefix that it does not know."""
    variables = contract().variables
    assert all(name == f"EMBEDDING_{key.upper()}" for key, name in variables.items())
    allowed = {"truncate": "refuse", "mcp": "on", "cache_entries": "5"}
    settings = EmbedderSettings.from_env(
        {name: allowed.get(key, key) for key, name in variables.items()}
    )
    assert settings.environment == "environment"
    assert settings.metrics_namespace == "metrics_namespace"
    assert settings.artifact_location == "artifact_location"
    assert settings.vector_index == "vector_index"
    assert settings.search_prefixes == "search_prefixes"
    assert (settings.truncate, settings.mcp, settings.cache_entries) == ("refuse", True, 5)


@pytest.mark.parametrize("tag", [SPACE_TAG, _index.SPACE_TAG])
def test_all_write_and_read_the_same_tag(tag):
    """The client is a distribution of its own, and a start of the endpoint reads no file for it."""
    assert tag == contract().tags["vector_space"]
