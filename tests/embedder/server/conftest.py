"""The collector of traces, for the tests of traces and of hooks."""

from collections.abc import Iterator

import pytest

from tests.embedder.core.aws.http_server import serving
from tests.embedder.server.otlp_receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with serving() as server:
        yield Receiver(server)
