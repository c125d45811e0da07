"""The report of a rehearsal."""

from tools.rehearsal.report import run


def test_the_broken_checks_are_repeated_at_the_end(capsys):
    """A broken check fails the command. What needs it is not run."""

    def rehearse(report, root):
        with report.step("a step"):
            report.check("one thing", True)
            report.check("another thing", False, 404)
            report.need("a third", False)
        raise AssertionError

    assert run(rehearse) == 1
    printed = capsys.readouterr().out
    assert "  BROKEN  another thing; found: 404\n" in printed
    assert printed.endswith(
        "\nBROKEN  another thing; found: 404\nBROKEN  a third\n1 of 3 checks hold\n"
    )
