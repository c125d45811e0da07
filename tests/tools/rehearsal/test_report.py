"""The table of checks, and when a rehearsal fails."""

from tools.rehearsal.image.report import Report


def test_a_failed_check_is_printed_at_once(capsys):
    """`check` returns the outcome, and `broken` has the failed rows."""
    report = Report(title="The image")
    assert report.check("layers", "in order", True, by="docker", found="a, b")
    assert report.broken == []
    assert not report.check("size", "under 130 MB", False, by="docker", found="140.0 MB")
    assert [row.subject for row in report.broken] == ["size"]
    assert "BROKEN  size: under 130 MB; found: 140.0 MB" in capsys.readouterr().err


def test_the_subjects_name_the_part_that_they_are_about(capsys):
    """As one rehearsal deploys several environments."""
    report = Report(title="Deploys")
    report.check("endpoint", "answers", True, by="its URL")
    report.about = "staging"
    report.check("endpoint", "answers", True, by="its URL")
    assert [row.subject for row in report.rows] == ["endpoint", "staging: endpoint"]
    assert "BROKEN" not in report.render() + capsys.readouterr().err


def test_the_table_has_a_row_for_each_check(capsys):
    """The last lines list those that do not hold, and count those that do."""
    report = Report(title="The image")
    report.check("layers", "in order", True, by="docker save", found="a, b")
    report.check("size", "small", False, by="docker save", found="140 MB")
    report.note("The base is a substitute.")
    text = report.render(width=140)
    capsys.readouterr()
    title, _, head, *_ = text.splitlines()
    assert title == "The image"
    assert head.split("  ")[0] == "subject"
    row = next(line for line in text.splitlines() if line.startswith("layers"))
    assert row.split() == ["layers", "in", "order", "docker", "save", "holds", "a,", "b"]
    assert "- The base is a substitute." in text
    assert text.splitlines()[-2:] == ["BROKEN  size: small; found: 140 MB", "1 of 2 checks hold"]
    assert max(map(len, text.splitlines())) <= 140
