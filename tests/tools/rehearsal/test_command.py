"""The command line of both rehearsals."""

from pathlib import Path

import pytest

from tools.rehearsal.image.command import run
from tools.rehearsal.image.report import Report

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("arguments", "continuous", "title"),
    [
        ([], "", "dev False"),
        (["staging"], "", "staging False"),
        (["--require-containers"], "", "dev True"),
        ([], "true", "dev True"),
    ],
)
def test_the_arguments_are_passed_on(monkeypatch, capsys, arguments, continuous, title):
    """The default environment is `dev`. If CI is set, containers are required."""

    def rehearse(root: Path, name: str, *, require_containers: bool) -> Report:
        report = Report(title=f"{name} {require_containers}")
        report.check("checkout", "is this one", root == ROOT, by="its path")
        return report

    monkeypatch.setenv("CI", continuous)
    monkeypatch.setattr("sys.argv", ["rehearse", *arguments])
    assert run("scripts/rehearse", "What it does.", rehearse) == 0
    assert capsys.readouterr().out.splitlines()[0] == title


@pytest.mark.parametrize(("arguments", "named"), [([], ("dev",)), (["dev", "b"], ("dev", "b"))])
def test_a_rehearsal_may_take_several_environments(monkeypatch, capsys, arguments, named):
    """In the order in which they are named."""
    monkeypatch.setattr("sys.argv", ["rehearse", *arguments])
    asked = []

    def rehearse(root: Path, *names: str, require_containers: bool) -> Report:
        asked.append(names)
        return Report(title="")

    assert run("scripts/rehearse", None, rehearse, several=True) == 0
    assert asked == [named]
    capsys.readouterr()


def test_a_failed_check_fails_the_command(monkeypatch, capsys):
    """It prints the whole table first."""

    def rehearse(root: Path, name: str, *, require_containers: bool) -> Report:
        report = Report(title=name)
        report.check("size", "small", False, by="docker")
        return report

    monkeypatch.setattr("sys.argv", ["rehearse"])
    assert run("scripts/rehearse", None, rehearse) == 1
    assert "0 of 1 checks hold" in capsys.readouterr().out
