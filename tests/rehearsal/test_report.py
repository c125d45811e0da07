"""The table of checks, and when a rehearsal fails."""

from image_rehearsal.report import Report


def test_a_failed_check_is_printed_at_once(capsys):
    """`check` returns the outcome, and `broken` has the failed rows."""
    report = Report(title="The image")
    assert report.check("layers", "in order", True, by="docker", found="a, b")
    assert report.broken == []
    assert not report.check("size", "under 130 MB", False, by="docker", found="140.0 MB")
    assert [row.subject for row in report.broken] == ["size"]
    assert "BROKEN  size: under 130 MB; found: 140.0 MB" in capsys.readouterr().err


def test_the_table_has_a_row_for_each_check(capsys):
    """The last line counts the checks that hold."""
    report = Report(title="The image")
    report.check("layers", "in order", True, by="docker save", found="a, b")
    report.check("size", "small", False, by="docker save")
    report.note("The base is a substitute.")
    text = report.render(width=140)
    capsys.readouterr()
    title, _, head, *_ = text.splitlines()
    assert title == "The image"
    assert head.split("  ")[0] == "subject"
    row = next(line for line in text.splitlines() if line.startswith("layers"))
    assert row.split() == ["layers", "in", "order", "docker", "save", "holds", "a,", "b"]
    assert "- The base is a substitute." in text
    assert text.splitlines()[-1] == "1 of 2 checks hold"
    assert max(map(len, text.splitlines())) <= 140
