"""What the cost model takes for granted."""

import pytest

from embedding_client.errors import ConfigurationError
from embedding_kit.environment import Environment
from embedding_load.arguments import parse
from embedding_load.assumptions import assume

MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def assumed(*arguments, cold_start=None, model=MODEL, gateway=False, **fields):
    """Return the assumptions for options, and for an environment with a cold start strategy."""
    environment = None
    if cold_start is not None or fields:
        written = {"name": "made", "model": {"name": MODEL}, **fields}
        if cold_start is not None:
            written["cold_start"] = cold_start
        environment = Environment.model_validate(written)
    return assume(
        parse(["--url", "http://127.0.0.1:9", *arguments]),
        environment,
        model,
        tokens=(8, 256),
        region="eu-west-1",
        gateway=gateway,
    )


def test_without_an_environment_the_function_has_the_default_size():
    """2,048 MB on demand, in the region of the URL."""
    made = assumed()
    assert made.bill.basis.startswith("2,048 MB in eu-west-1; times: ")
    assert made.bill.timeout == 30
    assert not made.provisioned


def test_memory_may_be_given():
    """A GB-second has one price, so a second of twice the memory costs twice as much."""
    half, whole = assumed("--memory-mb", "2048"), assumed("--memory-mb", "4096")
    assert whole.bill.second == pytest.approx(2 * half.bill.second)


def test_an_environment_gives_region_memory_and_timeout():
    """The region of its prices has priority over that of the URL."""
    made = assumed(
        region="eu-central-1", function={"memory_mb": 1769, "timeout": "20s", "threads": 1}
    )
    assert made.bill.basis.startswith("1,769 MB in eu-central-1; ")
    assert made.bill.timeout == 20


def test_a_restore_costs_more_than_an_initialization():
    """With SnapStart: $0.00028 for 2 GB, beside $0.00002."""
    restored = assumed(cold_start={"kind": "snapstart"}).bill.cold_start
    assert restored == pytest.approx(0.00028, rel=0.01)
    assert assumed().bill.cold_start < restored / 10


def test_provisioned_concurrency_has_no_cold_starts_to_forecast():
    """Up to its bound."""
    made = assumed(
        cold_start={
            "kind": "provisioned",
            "request_duration": "100ms",
            "minimum": 1,
            "maximum": 2,
        }
    )
    assert made.provisioned


def test_milliseconds_are_the_time_of_every_length():
    """With the overhead of the runtime, and scaled to another processor."""
    bill = assumed("--milliseconds", "20", "--slower", "2", model="acme/own-model").bill
    assert bill.seconds(8) == bill.seconds(256) == pytest.approx(0.043)


@pytest.mark.parametrize("model", ["acme/own-model", "a model's name"])
def test_an_unknown_model_needs_milliseconds(model):
    """Also one whose name no catalog could have."""
    with pytest.raises(ConfigurationError, match=f"no measured times of {model}.*--milliseconds"):
        assumed(model=model)
