"""The report of a rehearsal."""

import pytest

from tools.rehearsal.report import run


@pytest.mark.parametrize(
    ("arguments", "names"), [([], ("dev",)), (["dev", "staging"], ("dev", "staging"))]
)
def test_the_broken_checks_are_repeated_at_the_end(monkeypatch, capsys, arguments, names):
    """A broken check fails the command. What needs it is not run."""
    monkeypatch.setattr("sys.argv", ["scripts/rehearse", *arguments])
    monkeypatch.delenv("CI", raising=False)

    def rehearse(report, root, *given, require_containers):
        assert (given, require_containers) == (names, False)
        with report.step("a step"):
            report.check("one thing", True)
            report.check("another thing", False, 404)
            report.need("a third", False)
        raise AssertionError

    assert run("scripts/rehearse", None, rehearse, several=True) == 1
    printed = capsys.readouterr().out
    assert "  BROKEN  another thing; found: 404\n" in printed
    assert printed.endswith(
        "\nBROKEN  another thing; found: 404\nBROKEN  a third\n1 of 3 checks hold\n"
    )
