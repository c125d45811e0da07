"""A build refuses, then makes what the packages need, and prints only their addresses."""

import pytest

from operations import build, command, preflight

MODEL = '[model]\nname = "sentence-transformers/all-MiniLM-L6-v2"\n'
ZIP = '[function]\npackage = "zip"\n'
IN_S3 = f'{ZIP}artifact = "s3"\n[cold_start]\nkind = "snapstart"\n'
PUBLISH = "publish-assets --all --unstable=publish-assets --app cdk.out"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Return a function that builds dev; it returns the status, the CDK's commands, the output."""
    monkeypatch.setattr(command, "ENVIRONMENTS", tmp_path)
    monkeypatch.setattr(build, "session_for", lambda *_, **__: None)
    monkeypatch.setattr(preflight, "before_deploy", lambda *_, **__: [])
    monkeypatch.setattr(build, "built_zip", lambda *_: "s3://bucket/a.zip")
    monkeypatch.setattr(build, "built_images", lambda *_: ["images@sha256:a", "images@sha256:b"])

    def run(settings, *arguments):
        commands = []

        def run_cdk(*arguments, to_stderr):
            assert to_stderr
            commands.append(" ".join(arguments))

        monkeypatch.setattr(build, "run_cdk", run_cdk)
        (tmp_path / "dev.toml").write_text(MODEL + settings)
        (tmp_path / "staging.toml").write_text(MODEL)
        status = build.main(["dev", *arguments])
        return status, commands, capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    ("settings", "commands"),
    [
        (
            "",
            ["deploy EmbeddingKit-dev-Repository --exclusively --require-approval never", PUBLISH],
        ),
        ('[existing]\nrepository = "team/embeddings"\n', ["synth --all --quiet", PUBLISH]),
        (IN_S3, ["deploy EmbeddingKit-dev-Artifact --exclusively --require-approval never"]),
        # Into the bucket of bootstrap, by the build of the zip itself.
        (ZIP, []),
    ],
)
def test_the_stack_of_the_packages_comes_first(run, settings, commands):
    """A build needs the image repository, or the bucket of artifacts."""
    options = ("-c", "a=b")
    status, called, printed = run(settings, *options)
    assert status == 0
    assert called == [f"{command} -c a=b -c environment=dev" for command in commands]
    zipped = "s3://bucket/a.zip\n"
    assert printed == (zipped if ZIP in settings else "images@sha256:a\nimages@sha256:b\n")


def test_another_environment_is_refused_before_anything_is_built(run, capsys):
    """What follows the first option is a value of the CDK's, and no environment."""
    assert run(ZIP, "staging", "--verbose") == (1, [], "")
    status, commands, _ = run("", "staging", "--require-approval", "never")
    assert status == 0
    assert "--require-approval never -c environment=dev" in commands[-1]


def test_nothing_is_built_where_a_deploy_would_fail(run, monkeypatch):
    """The checks are those of a deploy that builds."""
    findings = [preflight.Finding("a reason", stops=True)]
    monkeypatch.setattr(preflight, "before_deploy", lambda *_, **__: findings)
    assert run("") == (1, [], "")
