"""Test `app.py`: one environment as input, its stacks as output."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: No credentials, no AWS configuration and no network. (HOME is kept: jsii unpacks the CDK there,
#: once.)
BARE = {
    "PATH": f"{Path(sys.prefix) / 'bin'}:/usr/bin:/bin",
    "HOME": str(Path.home()),
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "CDK_DISABLE_CLI_TELEMETRY": "true",
}


def synth(clone: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the app with these environment variables and no others of this shell."""
    return subprocess.run(
        [sys.executable, "app.py"],
        cwd=clone,
        env=BARE | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "error: there is no environment 'nowhere'"),
        pytest.param(
            "production",
            "error: environments/production.toml: model: google/embeddinggemma-300m",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_is_wrong_is_told_without_a_traceback(clone, tmp_path, name, message):
    """An error is one helpful line without a traceback."""
    done = synth(
        clone, CDK_OUTDIR=str(tmp_path), CDK_CONTEXT_JSON=json.dumps({"environment": name})
    )
    assert done.returncode == 1
    assert done.stderr.startswith(message)
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("*.template.json"))


def test_what_the_cdk_refuses_is_a_line_without_a_traceback(clone, tmp_path):
    """Each error of the CDK's own validation names the resource and the rule."""
    (tmp_path / "run.py").write_text(
        "import sys, app\n"
        "from aws_cdk import CfnResource, Environment, Stack\n"
        "def make(of, *_, **__):\n"
        "    stack = Stack(of, 'Refused', env=Environment(region='eu-central-2'))\n"
        "    url = {'AuthType': 'AWS_IAM', 'TargetFunctionArn': 'x'}\n"
        "    CfnResource(stack, 'Url', type='AWS::Lambda::Url', properties=url)\n"
        "app.EnvironmentStacks = make\n"
        "sys.exit(app.main())\n"
    )
    variables = BARE | {"CDK_OUTDIR": str(tmp_path / "out"), "PYTHONPATH": str(clone)}
    done = subprocess.run(
        [sys.executable, tmp_path / "run.py"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    reason = "Type: Resource type 'AWS::Lambda::Url' does not exist in 'eu-central-2' (F3006)"
    assert errors == [f"error: Refused/Url: {reason}"]


def test_ctrl_c_ends_synth_without_a_traceback(clone, tmp_path):
    """The CDK's command prints what synth prints, and AWS has not been asked for anything."""
    # In place of the CDK: its import takes most of the time of a synth.
    interrupt = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "aws_cdk.py").write_text(interrupt)
    done = synth(clone, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


@pytest.mark.slow
def test_the_same_file_gives_the_same_bytes(clone, tmp_path):
    """`python app.py` and the CLI give the same bytes, without credentials and network."""
    once, again = tmp_path / "once", tmp_path / "again"
    cli = ROOT / "scripts" / "node_modules" / ".bin" / "cdk"
    with (
        subprocess.Popen(
            [sys.executable, "app.py"], cwd=clone, env=BARE | {"CDK_OUTDIR": str(once)}
        ) as by_python,
        subprocess.Popen(
            [cli, "synth", "--quiet", "-c", "environment=dev", "--output", again],
            cwd=clone,
            env=BARE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as by_cli,
    ):
        assert (by_python.wait(), by_cli.wait()) == (0, 0)
    for pattern in ("*.template.json", "*.assets.json"):
        # Without a name, dev is synthesized.
        contents = {path.name: path.read_bytes() for path in once.glob(pattern)}
        assert len(contents) == 3
        assert contents == {path.name: path.read_bytes() for path in again.glob(pattern)}
