"""The benchmark of the load generator."""

import pytest

from benchmarks import load


@pytest.mark.slow
def test_the_generator_is_measured_against_the_local_endpoint(capsys):
    """With signed requests, of which each is answered."""
    load.main(["--rate", "50", "--seconds", "1"])
    out = capsys.readouterr().out
    assert "signed requests answered" in out
    assert "capacity of one core: " in out
