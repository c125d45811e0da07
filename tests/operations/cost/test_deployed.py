"""Test what an environment stores."""

import pytest

from embedding_kit.environment import Environment
from embedding_kit.prices import load_prices
from operations.cost.deployed import deployed_items, stored_zip

MODEL = {"name": "sentence-transformers/all-MiniLM-L6-v2"}


def environment(**tables):
    return Environment.model_validate({"name": "test", "model": MODEL, **tables})


def test_a_zip_is_stored_for_less_than_a_cent():
    """S3 stores it, and its environment has no repository."""
    (found,) = deployed_items(environment(function={"package": "zip"}), [], load_prices())
    assert found.name == "zip"
    assert 0 < found.usd < 0.01


def test_an_artifact_in_s3_is_stored_next_to_its_zip():
    """S3 stores the packages and the code in the zip, and the artifact as another object."""
    function = {"package": "zip", "artifact": "s3"}
    outside = stored_zip(environment(function=function, cold_start={"kind": "snapstart"}))
    inside = stored_zip(environment(function={"package": "zip"}))
    assert inside.artifact_gb == 0
    assert inside.zip_gb == pytest.approx(outside.zip_gb + outside.artifact_gb)
    assert outside.artifact_gb == pytest.approx(0.025, rel=0.05)


def test_an_artifact_of_unknown_size_counts_as_the_largest():
    """A model of the hub may be larger than one of the catalog."""
    unknown = {"name": "acme/own-model"}
    assert stored_zip(environment(model=unknown, function={"package": "zip"})).zip_gb > 0.15
