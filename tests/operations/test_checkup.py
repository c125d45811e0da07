"""A deploy ends with `embed doctor`, which a fake replaces here."""

import pytest

from operations import checkup

from .conftest import dev_with

FAILED = (
    "error: dev is deployed, but a check has failed: see the report above. To check again: "
    "embed doctor --environment dev. To deploy without the doctor: --no-doctor\n"
)


@pytest.fixture
def run(monkeypatch, capsys):
    """Return a function that runs the step; it returns status, the doctor's arguments, errors."""

    def run(environment, *, status=0):
        commands = []

        def run_command(arguments):
            commands.append(" ".join(arguments))
            return status

        monkeypatch.setattr("embedding_client.cli.run", run_command)
        return checkup.check_up(environment), *commands, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("status", "expected", "errors"), [(0, 0, ""), (1, 3, FAILED), (2, 3, FAILED)]
)
def test_the_status_says_that_the_deploy_succeeded(run, status, expected, errors):
    """A failed check has a status of its own, 3."""
    doctor = "doctor --environment dev --accept-vector-space --deployer"
    assert run(dev_with(), status=status) == (expected, doctor, errors)


def test_an_error_of_the_doctor_is_no_failed_deploy(monkeypatch, capsys):
    """The deploy has succeeded by then."""
    monkeypatch.setattr("embedding_client.cli.run", lambda _: 1 / 0)
    assert checkup.check_up(dev_with()) == 3
    errors = capsys.readouterr().err
    assert "ZeroDivisionError" in errors
    assert errors.endswith(FAILED)


def test_ctrl_c_is_no_failed_check(run, monkeypatch, capsys):
    """The process ends at once, also if a request of the doctor is open."""

    def end(status):
        raise SystemExit(status)

    monkeypatch.setattr("os._exit", end)
    with pytest.raises(SystemExit) as ended:
        run(dev_with(), status=130)
    assert ended.value.code == 130
    assert capsys.readouterr().err == "dev is deployed; the doctor was stopped\n"


def test_the_doctor_looks_in_the_environments_region(run):
    """The doctor gets the region of the environment's file, not that of the shell."""
    environment = dev_with(account="123456789012", region="eu-central-1")
    assert run(environment)[1].endswith(" --deployer --region eu-central-1")
