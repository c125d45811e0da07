"""The end of a server: what SIGTERM does to requests under way, and to new ones."""

import signal

from tests.embedder.server.running import Running, busy, running
from tests.fixtures.waiting import PATIENCE, wait_until


def test_requests_under_way_are_finished_and_new_ones_refused():
    """The server accepts no more connections, and ends after the last answer."""
    with busy(drain_accept=0.0, drain=600.0) as under_load:
        server = under_load.server
        server.server.handle_exit(signal.SIGTERM, None)
        wait_until(lambda: _refused(server))
        under_load.session.open()
        answer = under_load.running.result(PATIENCE)
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        server.thread.join(PATIENCE)
        assert not server.thread.is_alive()


def _refused(server: Running) -> bool:
    try:
        server.connect().close()
    except ConnectionRefusedError:
        return True
    return False


def test_at_first_new_requests_are_still_answered():
    """Load balancers send requests until they have seen that `/ready` says 503."""
    with running(drain_accept=600.0, drain=600.0) as server:
        assert server.get("/ready").status_code == 200
        server.server.handle_exit(signal.SIGTERM, None)
        wait_until(lambda: server.app.draining)
        assert server.get("/ready").json() == {"status": "draining"}
        assert server.get("/live").status_code == 200
        answer = server.post("/embed", {"inputs": "a"})
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")


def test_ctrl_c_does_not_wait_for_load_balancers():
    """It finishes what is under way, and accepts nothing more."""
    with running(drain_accept=600.0, drain=600.0) as server:
        server.server.handle_exit(signal.SIGINT, None)
        server.thread.join(PATIENCE)
        assert not server.thread.is_alive()
