"""`embed doctor` against a real model behind the local Function URL."""

import json

import pytest


@pytest.fixture
def doctor(running, tmp_path, monkeypatch, command):
    """Run the command; return its exit status, its report by check, and its errors."""

    def run(*arguments, url=running.url, **variables):
        with monkeypatch.context() as environment:
            environment.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
            for name, value in variables.items():
                environment.setenv(name, value)
            status, output, errors = command("doctor", "--url", url, "--json", *arguments)
        report = json.loads(output) if output else {"checks": []}
        return status, {check["name"]: check for check in report["checks"]}, errors

    return run


def states(report, state):
    return {name for name, check in report.items() if check["state"] == state}


def test_a_local_endpoint_is_well(doctor):
    """Unsigned requests get 403, signed ones a vector."""
    status, report, errors = doctor()
    assert (status, errors) == (0, "")
    assert states(report, "ok") == {"credentials", "unsigned", "signed", "vector space"}
    assert not states(report, "warning")
    assert report["unsigned"]["data"] == {"status": 403}
    assert report["signed"]["data"]["dimensions"] == 384
    assert report["stacks"]["found"] == "a URL of this machine has no resources on AWS"


def test_refused_credentials_are_ill(doctor):
    """All that needs an answer is skipped."""
    status, report, _ = doctor(AWS_ACCESS_KEY_ID="local", AWS_SECRET_ACCESS_KEY="wrong")
    assert status == 1
    assert states(report, "failed") == {"signed"}
    assert report["signed"]["found"].startswith("403")
    assert report["vector space"]["found"] == "no vector in answer to a signed request, see above"


def test_without_credentials_everything_else_is_skipped(doctor):
    """Of a Function URL on AWS; nothing is sent there."""
    url = "https://abcdefghijklmnopqrstuvwxyz012345.lambda-url.eu-central-1.on.aws"
    status, report, _ = doctor(url=url, HTTPS_PROXY="http://127.0.0.1:9")
    assert status == 1
    assert states(report, "failed") == {"credentials", "unsigned"}
    assert report["credentials"]["found"] == "Unable to locate credentials"
    for name in ("signed", "permissions", "alarms", "batch"):
        assert report[name]["found"] == "no valid credentials, see above"


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ([], 2, "No endpoint: give --environment or --url, or set EMBEDDING_URL."),
        (["--url", "nowhere"], 2, "The URL must look like"),
        (["--environment", "dev", "--profile", "none"], 2, "The config profile (none)"),
        (["--environment", "dev", "--url", "http://a"], 2, "not allowed with"),
    ],
)
def test_invalid_arguments(arguments, status, words, command, monkeypatch):
    """One line gives the reason."""
    monkeypatch.delenv("EMBEDDING_URL", raising=False)
    code, _, err = command("doctor", *arguments)
    assert (code, words in err) == (status, True)
