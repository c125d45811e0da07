"""Test the findings before a deploy that the account would reject halfway."""

import pytest

from embedding_kit.settings import FunctionSettings, Provisioned
from operations import build, deploy, preflight
from operations.preflight import Finding, before_deploy, report

from .conftest import HOME, STACK, Stubbed, dev_with

THEIRS = f"arn:aws:iam::{HOME}:role/theirs"


def has(session: Stubbed, concurrency: int, *stacks: str, **attributes: object) -> None:
    """Give the account this quota, and these stacks."""
    limit = {"AccountLimit": {"ConcurrentExecutions": concurrency}}
    session.stubs["lambda"].add_response("get_account_settings", limit)
    described = {"Stacks": [session.stack(name, **attributes) for name in stacks]}
    session.stubs["cloudformation"].add_response("describe_stacks", described, {})


def deployed_as(session: Stubbed, package: str) -> None:
    """Add the deployed function of dev."""
    session.deployed()
    check = {"Handler": "jobs.release_check.handler.handler"} if package == "zip" else {}
    own = {"Handler": "embedder.aws_lambda.handler.handler"} if package == "zip" else {}
    functions = {"Check": check, "Embedder": own, "Framework": {"Handler": "framework.onEvent"}}
    resources = {
        name: {"Type": "AWS::Lambda::Function", "Properties": properties}
        for name, properties in functions.items()
    }
    session.template({"Resources": resources})


@pytest.fixture
def dev(environments):
    """Return an environment that deletes its images with its stack and reserves nothing."""
    return environments["dev"]


@pytest.fixture
def with_function(dev):
    """Return the environment with other settings of its function."""

    def change(**settings):
        return dev.model_copy(update={"function": FunctionSettings(**settings)})

    return change


@pytest.mark.parametrize(
    ("region", "tables", "expected"),
    [
        ("ca-west-1", {}, "ca-west-1 lacks Lambda Function URLs"),
        ("eu-north-1", {"budget": {"monthly_usd": 5}}, "which [budget] needs"),
    ],
)
def test_a_region_that_lacks_a_part_stops_before_anything_else(
    aws, monkeypatch, region, tables, expected
):
    """Without a region in the file it is that of the shell, and AWS is asked nothing."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)
    (finding,) = before_deploy(aws, dev_with(**tables), imports=False, builds=True)
    assert finding.stops
    assert expected in finding.text


@pytest.mark.parametrize(
    ("act", "options"),
    [(deploy, []), (deploy, ["--image", "a"]), (deploy, ["--diff"]), (build, [])],
)
def test_each_way_to_deploy_or_compare_checks_the_region(aws, monkeypatch, capsys, act, options):
    """It ends with the one line, and without a question about the account at no terminal."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "il-central-1")
    assert act.main(["dev", *options]) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if line[:5] != "note:"]
    assert [line.partition(" lacks ")[0] for line in errors] == ["error: il-central-1"]


def test_an_unknown_region_is_a_note(aws, monkeypatch):
    """A region that opened after the list was made is not refused."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "me-south-1")
    finding, *_ = before_deploy(aws, dev_with(), imports=False)
    assert not finding.stops
    assert "whether me-south-1 has Lambda Function URLs is not known here" in finding.text


def test_exactly_the_needed_quota_is_no_finding(session, with_function):
    """20 reserved, and the 100 that Lambda keeps."""
    has(session, 120)
    function = {"reserved_concurrency": 20, "account_concurrency": 120}
    assert list(before_deploy(session, with_function(**function), imports=False)) == []


NEEDS_120 = (
    "dev needs a quota of 120 concurrent executions, of which Lambda keeps 100 unreserved; found: "
    "10; allowed: less reserved or provisioned concurrency, or a higher quota (Service Quotas, "
    "Lambda, Concurrent executions)"
)


@pytest.mark.parametrize(
    ("granted", "settings", "expected"),
    [
        (10, {"function": FunctionSettings(reserved_concurrency=20)}, (True, NEEDS_120)),
        (104, {"cold_start": Provisioned(maximum=5)}, (True, "needs a quota of 105")),
        (3000, {}, (False, "set account_concurrency = 3000")),
        # No API returns the memory quota; a reduced concurrency quota indicates it.
        (
            10,
            {"function": FunctionSettings(memory_mb=3538, account_concurrency=10)},
            (False, "3008 MB: memory_mb = 3538 may fail"),
        ),
    ],
    ids=["reserved", "provisioned", "another than assumed", "memory"],
)
def test_a_quota_is_compared_with_the_file(session, dev, granted, settings, expected):
    """What exceeds it stops before anything is deployed; the rest is a note."""
    has(session, granted)
    (finding,) = before_deploy(session, dev.model_copy(update=settings), imports=False)
    assert finding.stops is expected[0]
    assert expected[1] in finding.text


@pytest.mark.parametrize(
    ("name", "role", "expected"),
    [
        ("private-front", None, (True, "no role for logs in this account and region")),
        ("front", THEIRS, (False, "replaces the role")),
        ("front", PermissionError, (False, "could not be looked up")),
    ],
)
def test_the_role_for_logs_is_looked_up(session, environments, name, role, expected):
    """Without it the API's stage fails; a role that others set is not replaced in silence."""
    has(session, 1000)
    log_role(session, role)
    (finding,) = before_deploy(session, environments[name], imports=False)
    assert finding.stops is expected[0]
    assert expected[1] in finding.text


def log_role(session: Stubbed, role: str | type | None) -> None:
    """Answer with API Gateway's role for logs."""
    stub = session.stubs["apigateway"]
    if isinstance(role, type):
        stub.add_client_error("get_account", "AccessDeniedException")
    else:
        stub.add_response("get_account", {"cloudwatchRoleArn": role} if role else {})


@pytest.mark.parametrize(
    ("name", "own_name", "role"),
    [
        ("private-front", "dev", THEIRS),
        ("front", "dev", f"arn:aws:iam::{HOME}:role/EmbeddingKit-dev-Front-FrontLogRole-AbC"),
        ("front", "dev", None),
        # CloudFormation keeps 25 characters of the stack's name in a role's name.
        (
            "front",
            "embeddings-for-the-search-of-us",
            f"arn:aws:iam::{HOME}:role/EmbeddingKit-embeddings-f-FrontApiLogRole0123456789-AbCdEfG",
        ),
    ],
)
def test_a_role_for_logs_is_fine(session, environments, name, own_name, role):
    """Whoever set it, or if this environment is about to."""
    has(session, 1000)
    log_role(session, role)
    environment = environments[name].model_copy(update={"name": own_name})
    assert list(before_deploy(session, environment, imports=False)) == []


@pytest.fixture
def production(environments):
    return environments["production"].model_copy(update={"function": FunctionSettings()})


REPOSITORY = "EmbeddingKit-production-Repository"


def repositories(session: Stubbed, *names: str) -> None:
    """Answer with the image repositories of these names; not found without any."""
    stub = session.stubs["ecr"]
    if not names:
        stub.add_client_error("describe_repositories", "RepositoryNotFoundException")
        return
    repositories = {"repositories": [{"repositoryName": name} for name in names]}
    stub.add_response("describe_repositories", repositories, {"repositoryNames": list(names)})


def test_a_repository_that_outlived_its_stack_stops_and_names_the_command(session, production):
    """CloudFormation would fail with "already exists". A change set alone is no stack."""
    for stacks, attributes in (((), {}), ((REPOSITORY,), {"StackStatus": "REVIEW_IN_PROGRESS"})):
        has(session, 1000, *stacks, **attributes)
        repositories(session, "embedding-kit-production")
        (finding,) = before_deploy(session, production, imports=False)
        assert finding.stops
        assert finding.text.endswith("scripts/deploy production --import-existing-resources")


@pytest.mark.parametrize(
    ("stacks", "names"), [((), ()), ((REPOSITORY,), ("embedding-kit-production",))]
)
def test_a_repository_with_its_stack_or_none_of_both_is_fine(session, production, stacks, names):
    """As in a first deploy, and in every later one."""
    has(session, 1000, *stacks)
    repositories(session, *names)
    assert list(before_deploy(session, production, imports=False)) == []


IN_PROGRESS = "allowed: to wait until it ends"
CONTINUE = "aws cloudformation continue-update-rollback --stack-name EmbeddingKit-dev-Endpoint"
STOP = f"{IN_PROGRESS}, or scripts/rollback dev, which stops it and goes back"


@pytest.mark.parametrize(
    ("part", "status", "advice"),
    [
        ("Endpoint", "UPDATE_IN_PROGRESS", STOP),
        ("Endpoint", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", IN_PROGRESS),
        ("Endpoint", "UPDATE_ROLLBACK_IN_PROGRESS", IN_PROGRESS),
        ("Observability", "UPDATE_IN_PROGRESS", IN_PROGRESS),
        ("Repository", "CREATE_IN_PROGRESS", IN_PROGRESS),
        ("Observability", "DELETE_IN_PROGRESS", IN_PROGRESS),
        ("Observability", "DELETE_FAILED", "allowed: first scripts/destroy dev"),
        ("Endpoint", "UPDATE_ROLLBACK_FAILED", f"allowed: first {CONTINUE}"),
    ],
)
def test_a_stack_that_takes_no_update_stops(session, dev, part, status, advice):
    """CloudFormation would refuse only after synth, build and push."""
    name = f"EmbeddingKit-dev-{part}"
    has(session, 1000, name, StackStatus=status)
    if part == "Endpoint":
        deployed_as(session, "image")
    if part == "Repository":
        repositories(session, "embedding-kit-dev")
    (finding,) = before_deploy(session, dev, imports=False)
    assert finding.stops
    assert name in finding.text
    assert status in finding.text
    assert finding.text.endswith(advice)


@pytest.mark.parametrize(
    ("part", "status"),
    [
        # The CDK's command deletes a stack after its failed creation.
        *(("Observability", status) for status in ("CREATE_COMPLETE", "CREATE_FAILED")),
        *(
            ("Observability", f"{rollback}_COMPLETE")
            for rollback in ("ROLLBACK", "UPDATE_ROLLBACK")
        ),
        # It is no longer in the file.
        ("Server", "DELETE_IN_PROGRESS"),
    ],
)
def test_a_stack_that_the_cdk_can_update_or_leaves_alone_is_fine(session, dev, part, status):
    """The deploy does not wait for it."""
    has(session, 1000, f"EmbeddingKit-dev-{part}", StackStatus=status)
    assert list(before_deploy(session, dev, imports=False)) == []


@pytest.mark.parametrize("protected", [False, True])
def test_a_repository_that_was_deleted_by_hand_stops(session, dev, protected):
    """Its stack does not make it again, and the push would fail. The old image is gone, too."""
    name = "EmbeddingKit-dev-Repository"
    has(session, 1000, name, EnableTerminationProtection=protected)
    repositories(session)
    (finding,) = before_deploy(session, dev, imports=False)
    assert finding.stops
    assert finding.text.startswith("the image repository embedding-kit-dev was deleted by other")
    assert ("--no-enable-termination-protection" in finding.text) is protected
    assert f"aws cloudformation delete-stack --stack-name {name} && " in finding.text
    assert "scripts/deploy dev $(scripts/build dev | sed s/^/--image=/)" in finding.text


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """Return a function that sets what `docker` answers."""

    def answer(script):
        program = tmp_path / "docker"
        program.write_text(f'#!/bin/sh\n[ "$*" = version ] || exit 9\n{script}\n')
        program.chmod(0o755)
        monkeypatch.setenv("CDK_DOCKER", str(program))

    return answer


def test_an_environment_that_can_build_or_need_not_is_fine(
    session, with_function, docker, monkeypatch
):
    """The program is the one of the CDK's command. A zip, and images of before, need none."""
    docker("exit 0")
    has(session, 1000)
    assert list(before_deploy(session, with_function(), imports=False, builds=True)) == []
    monkeypatch.setenv("CDK_DOCKER", "no-such-program")
    for package, builds in (("zip", True), ("image", False)):
        has(session, 1000)
        environment = with_function(package=package)
        assert list(before_deploy(session, environment, imports=False, builds=builds)) == []
    has(session, 1000)
    (finding,) = before_deploy(session, with_function(), imports=False, builds=True)
    assert finding.text.startswith("the image is built by no-such-program; found: [Errno 2] No su")


@pytest.mark.parametrize("has_repository", [False, True])
def test_without_docker_no_image_is_built(session, dev, docker, has_repository):
    """It stops where no image can be there yet. An image that was pushed before needs no Docker."""
    docker("echo Cannot connect to the Docker daemon. >&2; exit 1")
    has(session, 1000, *(["EmbeddingKit-dev-Repository"] if has_repository else []))
    if has_repository:
        repositories(session, "embedding-kit-dev")
    (finding,) = before_deploy(session, dev, imports=False, builds=True)
    assert finding.stops is not has_repository
    assert "found: Cannot connect to the Docker daemon.; allowed: Docker" in finding.text
    assert ("Only images that were pushed before" in finding.text) is has_repository


def test_a_daemon_that_does_not_answer_yet_stops_nothing(session, dev, docker, monkeypatch):
    """It starts, or the machine is busy. A program that is missing says so at once."""
    monkeypatch.setattr(preflight, "_DOCKER_SECONDS", 0.2)
    docker("sleep 60")
    has(session, 1000)
    (finding,) = before_deploy(session, dev, imports=False, builds=True)
    assert not finding.stops
    assert "docker version did not answer within 0.2 seconds" in finding.text


def test_an_import_and_a_zip_ask_for_no_repository(session, production):
    """With the option, the user knows that it exists; an environment of a zip has none."""
    has(session, 1000)
    assert list(before_deploy(session, production, imports=True)) == []
    has(session, 1000)
    settings = FunctionSettings(package="zip", artifact="package")
    environment = production.model_copy(update={"function": settings})
    assert list(before_deploy(session, environment, imports=False)) == []


def test_what_may_not_be_read_stops_nothing(session, production):
    """The deploy's roles may have permissions that the shell lacks."""
    session.stubs["lambda"].add_client_error("get_account_settings", "AccessDeniedException")
    session.stubs["cloudformation"].add_client_error("describe_stacks", "AccessDenied")
    findings = list(before_deploy(session, production, imports=False))
    assert [finding.stops for finding in findings] == [False, False]
    assert "environment's stacks could not be looked up" in findings[0].text
    assert "AccessDeniedException" in findings[1].text
    has(session, 1000, "EmbeddingKit-production-Endpoint", REPOSITORY)
    session.stubs["cloudformation"].add_client_error("describe_stacks", "AccessDenied")
    session.stubs["ecr"].add_client_error("describe_repositories", "AccessDenied")
    findings = list(before_deploy(session, production, imports=False))
    assert [finding.stops for finding in findings] == [False, False]
    assert "deployed function could not be looked up" in findings[0].text
    assert "image repository could not be looked up" in findings[1].text


@pytest.mark.parametrize("deployed", ["image", "zip"])
@pytest.mark.parametrize("package", ["image", "zip"])
def test_another_package_than_the_deployed_one_stops(session, with_function, deployed, package):
    """The alias would get another function, and callers another URL."""
    has(session, 1000, STACK)
    deployed_as(session, deployed)
    findings = list(before_deploy(session, with_function(package=package), imports=False))
    assert [finding.stops for finding in findings] == [True] * (package != deployed)
    for finding in findings:
        assert finding.text.startswith(f"AWS changes no function from {deployed} to {package}")
        assert f'allowed: package = "{deployed}", or a second environment' in finding.text


@pytest.fixture
def in_s3(with_function):
    """Return an environment with its artifact in S3."""
    return with_function(package="zip", artifact="s3")


def _has_bucket(session) -> str:
    """Stub a bucket that belongs to no stack; return its name."""
    has(session, 1000)
    bucket = "kit-dev-123456789012-us-east-1"
    session.stubs["s3"].add_response("head_bucket", {}, {"Bucket": bucket})
    return bucket


@pytest.mark.parametrize("imports", [False, True])
def test_a_bucket_of_artifacts_without_a_stack_stops(session, in_s3, imports):
    """CloudFormation imports it only by a plain name, so the file must have the account."""
    bucket = _has_bucket(session)
    session.stubs["sts"].add_response("get_caller_identity", {"Account": HOME})
    (finding,) = before_deploy(session, in_s3, imports=imports)
    assert finding.stops
    assert finding.text.startswith(f"the bucket {bucket} exists and belongs to no stack")
    assert (
        'set account = "123456789012" and region = "us-east-1" in environments/dev.toml'
        in finding.text
    )
    assert "run scripts/deploy dev --import-existing-resources. " in finding.text
    assert finding.text.endswith(f"aws s3 rb --force s3://{bucket}")


def test_a_bucket_of_artifacts_is_imported_by_its_plain_name(session, in_s3):
    """With the account in the file, the message names the option, and the option needs no more."""
    _has_bucket(session)
    in_account = in_s3.model_copy(update={"account": HOME})
    (finding,) = before_deploy(session, in_account, imports=False)
    assert finding.stops
    assert "To use it again: scripts/deploy dev --import-existing-resources. " in finding.text
    has(session, 1000)
    assert list(before_deploy(session, in_account, imports=True)) == []


def test_a_bucket_that_is_not_there_or_of_a_stack_is_fine(session, in_s3):
    """As before the first deploy, and in every later one. A refused look-up is a note."""
    has(session, 1000)
    session.stubs["sts"].add_client_error("get_caller_identity", "AccessDenied")
    (finding,) = before_deploy(session, in_s3, imports=False)
    assert not finding.stops
    assert finding.text.startswith("the bucket of artifacts could not be looked up")
    has(session, 1000)
    session.stubs["sts"].add_response("get_caller_identity", {"Account": HOME})
    session.stubs["s3"].add_client_error("head_bucket", "404", http_status_code=404)
    assert list(before_deploy(session, in_s3, imports=False)) == []
    has(session, 1000, "EmbeddingKit-dev-Artifact")
    assert list(before_deploy(session, in_s3, imports=False)) == []


@pytest.mark.parametrize(
    ("findings", "status"),
    [([], 0), ([Finding("a")], 0), ([Finding("a"), Finding("b", stops=True), Finding("c")], 1)],
)
def test_a_finding_that_stops_fails_the_step(capsys, findings, status):
    """Every finding is printed as an error or a note."""
    assert report(findings) == status
    lines = [f"{'error' if f.stops else 'note'}: {f.text}" for f in findings]
    assert capsys.readouterr().err.splitlines() == lines


def test_an_own_key_and_existing_resources_are_looked_up(session, environments):
    """A failed lookup is printed as a note, and the other checks run."""
    has(session, 1000)
    session.stubs["ecr"].add_client_error("describe_repositories", "AccessDeniedException")
    (finding,) = before_deploy(session, environments["own-key"], imports=False)
    assert not finding.stops
    assert finding.text.startswith("the key of [encryption] could not be looked up")
    has(session, 1000)
    session.stubs["sts"].add_client_error("get_caller_identity", "AccessDeniedException")
    (finding,) = before_deploy(session, environments["existing"], imports=False)
    assert not finding.stops
    assert finding.text.startswith("the resources of [existing] could not be looked up")
