"""A deploy ends with `embed doctor`; a stand-in for `embed` is on the PATH."""

import shlex

import pytest

from operations import checkup, command

PLACED = '[model]\nname = "any/model"\n'


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Return a function that runs the step; it returns status, the doctor's arguments, errors."""
    folder = tmp_path / "environments"
    folder.mkdir()
    (folder / "dev.toml").write_text(PLACED)
    (folder / "placed.toml").write_text(
        'account = "123456789012"\nregion = "eu-central-1"\n' + PLACED
    )
    monkeypatch.setattr(command, "ENVIRONMENTS", folder)
    called, program = tmp_path / "called", tmp_path / "bin" / "embed"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")

    def run(name, *, status=0):
        program.write_text(f'#!/bin/sh\necho "$*" > {shlex.quote(str(called))}\nexit {status}\n')
        program.chmod(0o755)
        result = checkup.check_up(command.environment_of(name))
        doctor = called.read_text().strip() if called.exists() else None
        return result, doctor, capsys.readouterr().err

    return run


FAILED = (
    "error: dev is deployed, but a check has failed: see the report above. To check again: "
    "embed doctor --environment dev. To deploy without the doctor: --no-doctor\n"
)


@pytest.mark.parametrize(
    ("status", "expected", "errors"),
    [(0, 0, ""), (1, 3, FAILED), (130, 130, "dev is deployed; the doctor was stopped\n")],
)
def test_the_status_says_that_the_deploy_succeeded(run, status, expected, errors):
    """A failed check has a status of its own, 3, and Ctrl-C is no failed check."""
    doctor = "doctor --environment dev --accept-vector-space --deployer"
    assert run("dev", status=status) == (expected, doctor, errors)


def test_the_doctor_looks_in_the_environments_region(run):
    """The doctor gets the region of the environment's file, not that of the shell."""
    _, doctor, _ = run("placed")
    assert doctor.endswith(
        "--environment placed --accept-vector-space --deployer --region eu-central-1"
    )
