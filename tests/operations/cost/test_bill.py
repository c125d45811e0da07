"""Test what S3 stores of an environment's zip."""

import pytest

from embedding_kit.prices import load_prices
from operations.cost.bill import added_items
from operations.cost.ways import Scenario
from operations.cost.workload import Month
from stacks.environment import EnvironmentSettings

MODEL = {"name": "sentence-transformers/all-MiniLM-L6-v2"}


def stored(**tables):
    """Return the gigabytes of the zip and of the artifact next to it."""
    environment = EnvironmentSettings.model_validate({"name": "test", "model": MODEL, **tables})
    scenario = Scenario(month=Month(), core_seconds=0.1, memory_mb=2048)
    items = added_items(environment, [], load_prices(), scenario)
    return next(item.amount for item in items if item.name == "zip and artifact")


def test_an_artifact_in_s3_is_stored_next_to_its_zip():
    """S3 stores as much as with the artifact in the zip."""
    inside = stored(function={"package": "zip"})
    assert inside == pytest.approx(0.051, rel=0.05)
    function = {"package": "zip", "artifact": "s3"}
    assert stored(function=function, cold_start={"kind": "snapstart"}) == inside


def test_an_artifact_of_unknown_size_counts_as_the_largest():
    """A model of the hub may be larger than one of the catalog."""
    assert stored(model={"name": "acme/own-model"}, function={"package": "zip"}) > 0.15
