"""A deploy ends with `embed doctor`; a stand-in for `embed` is on the PATH."""

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
        program.write_text(f'#!/bin/sh\necho "$*" > {called}\nexit {status}\n')
        program.chmod(0o755)
        result = checkup.main([name])
        doctor = called.read_text().strip() if called.exists() else None
        return result, doctor, capsys.readouterr().err

    return run


def test_a_well_endpoint_is_no_news(run):
    """If no check fails, the step prints nothing more, and its status is 0."""
    assert run("dev") == (0, "doctor --environment dev --accept-vector-space --deployer", "")


def test_the_doctor_looks_in_the_environments_region(run):
    """The doctor gets the region of the environment's file, not that of the shell."""
    _, doctor, _ = run("placed")
    assert (
        doctor
        == "doctor --environment placed --accept-vector-space --deployer --region eu-central-1"
    )


def test_an_ill_endpoint_is_deployed_all_the_same(run):
    """If a check has failed, the status is 3, and the message says that the deploy succeeded."""
    status, _, errors = run("dev", status=1)
    assert status == checkup.ILL == 3
    assert errors == (
        "error: dev is deployed, but a check has failed: see the report above. To check again: "
        "embed doctor --environment dev. To deploy without the doctor: --no-doctor\n"
    )


def test_a_stopped_doctor_is_no_illness(run):
    """After Ctrl-C the status is 130, and nothing is reported as failed."""
    assert run("dev", status=130)[::2] == (130, "dev is deployed; the doctor was stopped\n")


def test_an_unknown_environment_is_an_error(run):
    """For an unknown environment the step prints an error and does not run the doctor."""
    status, doctor, errors = run("other")
    assert (status, doctor) == (1, None)
    assert errors.startswith("error: there is no environment 'other'")
