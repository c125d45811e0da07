"""Test what S3 stores of an environment's zip."""

import pytest

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.prices import load_prices
from operations.cost.bill import added_items
from operations.cost.ways import Scenario
from operations.cost.workload import Choices

MODEL = {"name": "sentence-transformers/all-MiniLM-L6-v2"}


def stored(**tables):
    """Return the gigabytes of the zip and of the artifact next to it."""
    environment = EnvironmentSettings.model_validate({"name": "test", "model": MODEL, **tables})
    scenario = Scenario(traffic=Choices().traffic, core_seconds=0.1, memory_mb=2048)
    items = added_items(environment, [], load_prices(), scenario, Choices())
    amounts = {item.name: item.amount for item in items}
    return amounts["zip"], amounts.get("artifact in S3")


def test_an_artifact_in_s3_is_stored_next_to_its_zip():
    """S3 stores the packages and the code in the zip, and the artifact as another object."""
    function = {"package": "zip", "artifact": "s3"}
    zipped, artifact = stored(function=function, cold_start={"kind": "snapstart"})
    assert artifact == pytest.approx(0.025, rel=0.05)
    assert stored(function={"package": "zip"}) == (pytest.approx(zipped + artifact), None)


def test_an_artifact_of_unknown_size_counts_as_the_largest():
    """A model of the hub may be larger than one of the catalog."""
    assert stored(model={"name": "acme/own-model"}, function={"package": "zip"})[0] > 0.15
