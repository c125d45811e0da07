"""The limit of open files."""

import resource

import pytest

from embedding_client.errors import ConfigurationError
from embedding_load.file_limit import allow_files


@pytest.fixture
def limits(monkeypatch):
    """Stand in for the system's limits; return those that are set."""
    current = [(256, 4096)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: current[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: current.append(pair))
    return current


def test_the_limit_is_raised_for_the_connections(limits):
    """On macOS it is 256 by default, and 1,000 connections would fail."""
    allow_files(1000)
    assert limits[-1] == (1064, 4096)


def test_a_limit_that_is_high_enough_stays(limits):
    """It is never lowered."""
    allow_files(100)
    assert limits == [(256, 4096)]


def test_more_connections_than_the_system_allows_are_refused(limits):
    """With how many are allowed."""
    with pytest.raises(ConfigurationError, match=r"Allowed: up to 4,032\."):
        allow_files(5000)
    assert limits == [(256, 4096)]
