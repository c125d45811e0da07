"""The live table."""

import asyncio
import io

from embedding_load import live
from embedding_load.limits import Budget
from embedding_load.outcomes import Kind, Outcome
from embedding_load.schedule import plan


class Terminal(io.StringIO):
    """Standard error on a terminal."""

    def isatty(self):
        """Return True."""
        return True


class Sender:
    """A sender with two outcomes."""

    sent, waiting, seconds = 3, 1, 2.0
    outcomes = (
        Outcome(Kind.OK, 200, 0.0, 0.0, 0.0, 1.4, 8, 8, True),
        Outcome(Kind.THROTTLED, 429, 1.0, 1.0, 1.0, 1.5, 8, 0, False),
    )


def shown(output, monkeypatch, *, looks):
    """Show a test for some looks, and close it."""
    traffic = plan(rate=1, shape="flat", seconds=60, tokens=(8, 8), most=10, seed=0)
    monkeypatch.setattr(live, "_TABLE_SECONDS", 0.01)
    monkeypatch.setattr(live, "_LINE_SECONDS", 0.01)
    table = live.Live(Sender(), traffic, Budget(1.0, None), billed=True, output=output)

    async def run():
        task = asyncio.create_task(table.run())
        while output.getvalue().count("cold starts") < looks:
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(run())
    table.close()
    return output.getvalue()


def test_the_table_is_drawn_over_itself_and_removed(monkeypatch):
    """Each look moves up by its lines and clears them; the report replaces the last."""
    found = shown(Terminal(), monkeypatch, looks=2)
    assert found.startswith("  2 of 60 s   3 sent   1 waiting   0.5 answers a second\n")
    assert "answered 1   throttled 1   errors 0   cold starts 1\n" in found
    assert "latency in ms, lately: p50 1,400" in found
    assert found.count("\x1b[4A\x1b[J") == found.count("cold starts")
    assert found.endswith("\x1b[4A\x1b[J")


def test_a_log_has_lines_without_control_characters(monkeypatch):
    """One for each look."""
    found = shown(io.StringIO(), monkeypatch, looks=2)
    assert "\x1b" not in found
    assert found.startswith("2 s: 3 sent, 1 answered, 1 throttled, 0 errors, 1 cold starts")


def test_a_closed_terminal_does_not_end_the_test(monkeypatch):
    """The report is worth more than the table."""

    class Closed(Terminal):
        def write(self, _):
            """Fail."""
            raise OSError("closed")

    table = live.Live(
        Sender(),
        plan(rate=1, shape="flat", seconds=60, tokens=(8, 8), most=10, seed=0),
        Budget(1.0, None),
        billed=False,
        output=Closed(),
    )
    table._show(table.moment())
    table.close()
