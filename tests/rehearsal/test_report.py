"""The table: what it shows, and what makes a rehearsal fail."""

from image_rehearsal.report import Report


def test_a_broken_check_fails_the_report_and_an_unproven_one_does_not(capsys):
    """What cannot be shown here is told, and is no failure; what is wrong is told at once."""
    report = Report(title="The image")
    assert report.check("layers", "in order", True, by="docker", found="a, b")
    report.unproven("alarms", "that they ring", instead="snapshots")
    assert report.broken == []
    assert not report.check("size", "under 130 MB", False, by="docker", found="140.0 MB")
    assert [row.subject for row in report.broken] == ["size"]
    assert "BROKEN  size: under 130 MB; found: 140.0 MB" in capsys.readouterr().err


def test_the_table_says_subject_check_means_outcome_and_finding(capsys):
    """And in the end how many hold, and how many cannot be shown."""
    report = Report(title="The image")
    report.check("layers", "in order", True, by="docker save", found="a, b")
    report.check("size", "small", False, by="docker save")
    report.unproven("alarms", "that they ring", instead="snapshots")
    report.note("The base is a stand-in.")
    text = report.render(width=140)
    capsys.readouterr()
    title, _, head, *_ = text.splitlines()
    assert title == "The image"
    assert head.split("  ")[0] == "subject"
    row = next(line for line in text.splitlines() if line.startswith("layers"))
    assert row.split() == ["layers", "in", "order", "docker", "save", "holds", "a,", "b"]
    assert "- The base is a stand-in." in text
    assert text.splitlines()[-1] == "1 of 2 checks hold; 1 things cannot be shown here"
    assert max(map(len, text.splitlines())) <= 140
