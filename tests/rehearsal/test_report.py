"""The table of checks, and when a rehearsal fails."""

from image_rehearsal.report import Report


def test_a_broken_check_fails_the_report_and_an_unproven_one_does_not(capsys):
    """A check that needs an account is listed and does not fail; a failure is printed at once."""
    report = Report(title="The image")
    assert report.check("layers", "in order", True, by="docker", found="a, b")
    report.not_shown("alarms", "they go into ALARM", instead="snapshots")
    assert report.broken == []
    assert not report.check("size", "under 130 MB", False, by="docker", found="140.0 MB")
    assert [row.subject for row in report.broken] == ["size"]
    assert "BROKEN  size: under 130 MB; found: 140.0 MB" in capsys.readouterr().err


def test_the_table_says_subject_check_means_outcome_and_finding(capsys):
    """The last line counts the checks that hold, and those that need an account."""
    report = Report(title="The image")
    report.check("layers", "in order", True, by="docker save", found="a, b")
    report.check("size", "small", False, by="docker save")
    report.not_shown("alarms", "they go into ALARM", instead="snapshots")
    report.note("The base is a substitute.")
    text = report.render(width=140)
    capsys.readouterr()
    title, _, head, *_ = text.splitlines()
    assert title == "The image"
    assert head.split("  ")[0] == "subject"
    row = next(line for line in text.splitlines() if line.startswith("layers"))
    assert row.split() == ["layers", "in", "order", "docker", "save", "holds", "a,", "b"]
    assert "- The base is a substitute." in text
    assert text.splitlines()[-1] == "1 of 2 checks hold; 1 checks need an AWS account"
    assert max(map(len, text.splitlines())) <= 140
