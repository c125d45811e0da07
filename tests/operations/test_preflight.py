"""Test the findings before a deploy that the account would reject halfway."""

import json
from datetime import UTC, datetime

import pytest
from botocore.stub import Stubber

from embedding_kit.settings import FunctionSettings, Provisioned
from operations import command, preflight
from operations.preflight import before_deploy, main
from operations.preflight_account import Finding

from .conftest import SESSION


class _Session:
    """Stubbed clients instead of AWS."""

    def __init__(self, *names: str) -> None:
        self.clients = {
            name: SESSION.create_client(
                name,
                region_name="us-east-1",
                aws_access_key_id="none",
                aws_secret_access_key="none",
            )
            for name in names
        }
        self.stubs = {name: Stubber(client) for name, client in self.clients.items()}
        for stub in self.stubs.values():
            stub.activate()

    #: The region of the environment; CloudFront's stack is in another one.
    region: str | None = None

    def create_client(self, name: str, *, region_name: str | None) -> object:
        assert region_name == ("us-east-1" if name == "ssm" else self.region)
        return self.clients[name]

    def has(self, concurrency: int, *stacks: str, **attributes: object) -> None:
        """Give the account this quota, and these stacks."""
        self.stubs["lambda"].add_response(
            "get_account_settings", {"AccountLimit": {"ConcurrentExecutions": concurrency}}
        )
        described = [_stack(name, **attributes) for name in stacks]
        self.stubs["cloudformation"].add_response("describe_stacks", {"Stacks": described}, {})

    def deployed_as(self, package: str) -> None:
        """Add the deployed function of dev."""
        arn = "arn:aws:lambda:us-east-1:123456789012:function:embedder:live"
        self.stack(
            "EmbeddingKit-dev-Endpoint", Outputs=[{"OutputKey": "AliasArn", "OutputValue": arn}]
        )
        check = {"Handler": "jobs.release_check.handler.handler"} if package == "zip" else {}
        own = {"Handler": "embedder.aws_lambda.handler.handler"} if package == "zip" else {}
        functions = {"Check": check, "Embedder": own, "Framework": {"Handler": "framework.onEvent"}}
        resources = {
            name: {"Type": "AWS::Lambda::Function", "Properties": properties}
            for name, properties in functions.items()
        }
        self.stubs["cloudformation"].add_response(
            "get_template",
            {"TemplateBody": json.dumps({"Resources": resources})},
            {"StackName": "EmbeddingKit-dev-Endpoint"},
        )

    def stack(self, name: str, **attributes: object) -> None:
        """Describe a deployed stack by its name."""
        expected = {"StackName": name}
        described = {"Stacks": [_stack(name, **attributes)]}
        self.stubs["cloudformation"].add_response("describe_stacks", described, expected)


def _stack(name: str, **attributes: object) -> dict[str, object]:
    return {
        "StackName": name,
        "CreationTime": datetime(2026, 11, 1, tzinfo=UTC),
        "StackStatus": "UPDATE_COMPLETE",
        **attributes,
    }


@pytest.fixture
def session():
    made = _Session("lambda", "cloudformation", "ecr", "s3", "sts")
    yield made
    for stub in made.stubs.values():
        stub.assert_no_pending_responses()


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


def test_an_established_account_is_fine(session, dev):
    """An established account gives no findings."""
    session.has(1000)
    assert list(before_deploy(session, dev, imports=False)) == []


def test_a_reservation_over_the_quota_stops_before_anything_is_deployed(session, with_function):
    """A new account's quota is 10; a reservation of 20 needs 120."""
    session.has(10)
    (finding,) = before_deploy(session, with_function(reserved_concurrency=20), imports=False)
    assert finding == Finding(
        "dev needs a quota of 120 concurrent executions, of which Lambda keeps 100 unreserved; "
        "found: 10; allowed: less reserved or provisioned concurrency, or a higher quota "
        "(Service Quotas, Lambda, Concurrent executions)",
        stops=True,
    )


def test_the_exact_quota_is_enough(session, with_function):
    """A quota of 120 is enough for a reservation of 20 and the 100 that Lambda keeps."""
    session.has(120)
    settings = with_function(reserved_concurrency=20, account_concurrency=120)
    assert list(before_deploy(session, settings, imports=False)) == []


def test_provisioned_concurrency_needs_the_quota_as_well(session, dev):
    """Without a reservation, its maximum is added to the 100 that Lambda keeps."""
    session.has(10)
    environment = dev.model_copy(update={"cold_start": Provisioned(maximum=5)})
    (finding,) = before_deploy(session, environment, imports=False)
    assert finding.stops
    assert "needs a quota of 105" in finding.text


def test_another_quota_than_the_file_assumes_is_a_note(session, dev):
    """The alarms on concurrency are derived from the quota in the file."""
    session.has(3000)
    (finding,) = before_deploy(session, dev, imports=False)
    assert not finding.stops
    assert "AWS grants 3000" in finding.text
    assert "set account_concurrency = 3000" in finding.text


def test_a_new_accounts_memory_is_a_note(session, with_function):
    """No API returns the memory quota; a reduced concurrency quota indicates it."""
    session.has(10)
    settings = with_function(memory_mb=3538, account_concurrency=10)
    (finding,) = before_deploy(session, settings, imports=False)
    assert not finding.stops
    assert "3008 MB: memory_mb = 3538 may fail" in finding.text


@pytest.mark.parametrize(
    ("name", "role", "stops", "text"),
    [
        ("private-front", None, True, "no role for logs in this account and region"),
        ("front", "arn:aws:iam::123456789012:role/theirs", False, "replaces the role"),
    ],
)
def test_the_role_for_logs_is_looked_up(environments, name, role, stops, text):
    """Without it the API's stage fails; a role that others set is not replaced in silence."""
    session = _Session("lambda", "cloudformation", "apigateway")
    session.has(1000)
    session.stubs["apigateway"].add_response(
        "get_account", {"cloudwatchRoleArn": role} if role else {}
    )
    (finding,) = before_deploy(session, environments[name], imports=False)
    assert finding.stops is stops
    assert text in finding.text


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("private-front", "arn:aws:iam::123456789012:role/theirs"),
        ("front", "arn:aws:iam::123456789012:role/EmbeddingKit-dev-Front-FrontLogRole-AbC"),
        ("front", None),
    ],
)
def test_a_role_for_logs_is_fine(environments, name, role):
    """Whoever set it, or if this environment is about to."""
    session = _Session("lambda", "cloudformation", "apigateway")
    session.has(1000)
    session.stubs["apigateway"].add_response(
        "get_account", {"cloudwatchRoleArn": role} if role else {}
    )
    assert list(before_deploy(session, environments[name], imports=False)) == []


def test_the_own_role_for_logs_is_known_by_the_name_that_aws_shortens(environments):
    """CloudFormation keeps 25 characters of the stack's name in a role's name."""
    session = _Session("lambda", "cloudformation", "apigateway")
    session.has(1000)
    role = "EmbeddingKit-embeddings-f-FrontApiLogRole0123456789-AbCdEfGhIjKl"
    session.stubs["apigateway"].add_response(
        "get_account", {"cloudwatchRoleArn": f"arn:aws:iam::123456789012:role/{role}"}
    )
    long = environments["front"].model_copy(update={"name": "embeddings-for-the-search-of-us"})
    assert list(before_deploy(session, long, imports=False)) == []


def test_a_role_for_logs_that_cannot_be_looked_up_is_a_note(environments):
    """The deploy itself then shows whether it is there."""
    session = _Session("lambda", "cloudformation", "apigateway")
    session.has(1000)
    session.stubs["apigateway"].add_client_error("get_account", "AccessDeniedException")
    (finding,) = before_deploy(session, environments["front"], imports=False)
    assert not finding.stops
    assert "could not be looked up" in finding.text


@pytest.fixture
def production(environments):
    return environments["production"].model_copy(update={"function": FunctionSettings()})


def test_a_repository_that_outlived_its_stack_stops_and_names_the_command(session, production):
    """CloudFormation would fail with "already exists"."""
    session.has(1000)
    session.stubs["ecr"].add_response(
        "describe_repositories",
        {"repositories": [{"repositoryName": "embedding-kit-production"}]},
        {"repositoryNames": ["embedding-kit-production"]},
    )
    (finding,) = before_deploy(session, production, imports=False)
    assert finding.stops
    assert finding.text.endswith("scripts/deploy production --import-existing-resources")


def test_a_change_set_alone_is_no_stack(session, production):
    """A stack in review, left by an interrupted deploy, has no resources."""
    session.has(1000, "EmbeddingKit-production-Repository", StackStatus="REVIEW_IN_PROGRESS")
    session.stubs["ecr"].add_response(
        "describe_repositories", {"repositories": [{"repositoryName": "embedding-kit-production"}]}
    )
    assert [f.stops for f in before_deploy(session, production, imports=False)] == [True]


def test_a_first_deploy_finds_no_repository(session, production):
    """Without a stack and without a repository there is nothing to import."""
    session.has(1000)
    session.stubs["ecr"].add_client_error("describe_repositories", "RepositoryNotFoundException")
    assert list(before_deploy(session, production, imports=False)) == []


def test_a_deployed_repository_is_left_alone(session, production):
    """A repository that belongs to its stack gives no finding."""
    session.has(1000, "EmbeddingKit-production-Repository")
    session.stubs["ecr"].add_response("describe_repositories", {"repositories": []})
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
    session.has(1000, name, StackStatus=status)
    if part == "Endpoint":
        session.deployed_as("image")
    if part == "Repository":
        session.stubs["ecr"].add_response("describe_repositories", {"repositories": []})
    (finding,) = before_deploy(session, dev, imports=False)
    assert finding.stops
    assert name in finding.text
    assert status in finding.text
    assert finding.text.endswith(advice)


@pytest.mark.parametrize(
    "status", ["CREATE_COMPLETE", "ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "CREATE_FAILED"]
)
def test_a_stack_that_the_cdk_can_update_is_fine(session, dev, status):
    """The CDK's command deletes a stack after its failed creation."""
    session.has(1000, "EmbeddingKit-dev-Observability", StackStatus=status)
    assert list(before_deploy(session, dev, imports=False)) == []


def test_a_stack_that_is_no_longer_in_the_file_waits_for_nobody(session, dev):
    """The deploy does not touch it."""
    session.has(1000, "EmbeddingKit-dev-Server", StackStatus="DELETE_IN_PROGRESS")
    assert list(before_deploy(session, dev, imports=False)) == []


@pytest.mark.parametrize("protected", [False, True])
def test_a_repository_that_was_deleted_by_hand_stops(session, dev, protected):
    """Its stack does not make it again, and the push would fail. The old image is gone, too."""
    name = "EmbeddingKit-dev-Repository"
    session.has(1000, name, EnableTerminationProtection=protected)
    session.stubs["ecr"].add_client_error("describe_repositories", "RepositoryNotFoundException")
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


def test_docker_that_answers_is_fine(session, dev, docker):
    """The program is the one that the CDK's command will run."""
    docker("exit 0")
    session.has(1000)
    assert list(before_deploy(session, dev, imports=False, builds=True)) == []


@pytest.mark.parametrize("has_repository", [False, True])
def test_without_docker_no_image_is_built(session, dev, docker, has_repository):
    """It stops where no image can be there yet. An image that was pushed before needs no Docker."""
    docker("echo Cannot connect to the Docker daemon. >&2; exit 1")
    session.has(1000, *(["EmbeddingKit-dev-Repository"] if has_repository else []))
    if has_repository:
        session.stubs["ecr"].add_response("describe_repositories", {"repositories": []})
    (finding,) = before_deploy(session, dev, imports=False, builds=True)
    assert finding.stops is not has_repository
    assert "found: Cannot connect to the Docker daemon.; allowed: Docker" in finding.text
    assert ("Only images that were pushed before" in finding.text) is has_repository


def test_docker_that_is_not_installed_is_named(session, dev, monkeypatch):
    """As the operating system names it."""
    monkeypatch.setenv("CDK_DOCKER", "no-such-program")
    session.has(1000)
    (finding,) = before_deploy(session, dev, imports=False, builds=True)
    assert finding.text.startswith("the image is built by no-such-program; found: [Errno 2] No su")


def test_a_zip_needs_no_docker(session, with_function, monkeypatch):
    """Nor do images that were built before."""
    monkeypatch.setenv("CDK_DOCKER", "no-such-program")
    session.has(1000)
    zipped = with_function(package="zip")
    assert list(before_deploy(session, zipped, imports=False, builds=True)) == []
    session.has(1000)
    assert list(before_deploy(session, with_function(), imports=False, builds=False)) == []


def test_an_import_asks_for_no_repository(session, production):
    """With an import option, the user already knows that the repository exists."""
    session.has(1000)
    assert list(before_deploy(session, production, imports=True)) == []


def test_what_may_not_be_read_stops_nothing(session, production):
    """The deploy's roles may have permissions that the shell lacks."""
    session.stubs["lambda"].add_client_error("get_account_settings", "AccessDeniedException")
    session.stubs["cloudformation"].add_client_error("describe_stacks", "AccessDenied")
    findings = list(before_deploy(session, production, imports=False))
    assert [finding.stops for finding in findings] == [False, False]
    assert "environment's stacks could not be looked up" in findings[0].text
    assert "AccessDeniedException" in findings[1].text
    endpoint, repository = "EmbeddingKit-production-Endpoint", "EmbeddingKit-production-Repository"
    session.has(1000, endpoint, repository)
    session.stubs["cloudformation"].add_client_error("describe_stacks", "AccessDenied")
    session.stubs["ecr"].add_client_error("describe_repositories", "AccessDenied")
    findings = list(before_deploy(session, production, imports=False))
    assert [finding.stops for finding in findings] == [False, False]
    assert "deployed function could not be looked up" in findings[0].text
    assert "image repository could not be looked up" in findings[1].text


@pytest.mark.parametrize(("deployed", "package"), [("image", "zip"), ("zip", "image")])
def test_another_package_than_the_deployed_one_stops(session, with_function, deployed, package):
    """The alias would get another function, and callers another URL."""
    session.has(1000, "EmbeddingKit-dev-Endpoint")
    session.deployed_as(deployed)
    (finding,) = before_deploy(session, with_function(package=package), imports=False)
    assert finding.stops
    assert finding.text.startswith(f"AWS changes no function from {deployed} to {package}")
    assert f'allowed: package = "{deployed}", or a second environment' in finding.text


@pytest.mark.parametrize("package", ["image", "zip"])
def test_the_deployed_package_is_fine(session, with_function, package):
    """Every deploy after the first one."""
    session.has(1000, "EmbeddingKit-dev-Endpoint")
    session.deployed_as(package)
    assert list(before_deploy(session, with_function(package=package), imports=False)) == []


def test_a_zip_asks_for_no_repository(session, production):
    """An environment of a zip has none."""
    session.has(1000)
    settings = FunctionSettings(package="zip", artifact="package")
    environment = production.model_copy(update={"function": settings})
    assert list(before_deploy(session, environment, imports=False)) == []


@pytest.fixture
def in_s3(with_function):
    """Return an environment with its artifact in S3."""
    return with_function(package="zip", artifact="s3")


def _has_bucket(session) -> str:
    """Stub a bucket that belongs to no stack; return its name."""
    session.has(1000)
    bucket = "kit-dev-123456789012-us-east-1"
    session.stubs["s3"].add_response("head_bucket", {}, {"Bucket": bucket})
    return bucket


@pytest.mark.parametrize("imports", [False, True])
def test_a_bucket_of_artifacts_without_a_stack_stops(session, in_s3, imports):
    """CloudFormation imports it only by a plain name, so the file must have the account."""
    bucket = _has_bucket(session)
    session.stubs["sts"].add_response("get_caller_identity", {"Account": "123456789012"})
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
    placed = in_s3.model_copy(update={"account": "123456789012"})
    (finding,) = before_deploy(session, placed, imports=False)
    assert finding.stops
    assert "To use it again: scripts/deploy dev --import-existing-resources. " in finding.text
    session.has(1000)
    assert list(before_deploy(session, placed, imports=True)) == []


def test_a_bucket_that_is_not_there_is_fine(session, in_s3):
    """As before the first deploy."""
    session.has(1000)
    session.stubs["sts"].add_response("get_caller_identity", {"Account": "123456789012"})
    session.stubs["s3"].add_client_error("head_bucket", "404", http_status_code=404)
    assert list(before_deploy(session, in_s3, imports=False)) == []


def test_a_bucket_of_a_stack_is_fine(session, in_s3):
    """As in every deploy after the first one."""
    session.has(1000, "EmbeddingKit-dev-Artifact")
    assert list(before_deploy(session, in_s3, imports=False)) == []


def test_a_bucket_that_may_not_be_looked_up_stops_nothing(session, in_s3):
    """The deploy's roles may have permissions that the shell lacks."""
    session.has(1000)
    session.stubs["sts"].add_client_error("get_caller_identity", "AccessDenied")
    (finding,) = before_deploy(session, in_s3, imports=False)
    assert not finding.stops
    assert finding.text.startswith("the bucket of artifacts could not be looked up")


@pytest.mark.parametrize(
    ("findings", "status"),
    [([], 0), ([Finding("a")], 0), ([Finding("a"), Finding("b", stops=True), Finding("c")], 1)],
)
def test_the_command_stops_the_script_where_something_would_fail(
    monkeypatch, environments, capsys, findings, status
):
    """Every finding is printed as an error or a note; an error fails the script."""
    asked = []

    def before_deploy(_, environment, *, imports, builds):
        asked.append((environment.name, imports, builds))
        return findings

    monkeypatch.setattr(command, "load_environment", lambda name, **_: environments[name])
    monkeypatch.setattr(preflight, "session_for", lambda *_, **__: None)
    monkeypatch.setattr(preflight, "before_deploy", before_deploy)
    assert main(["dev", "--require-approval", "never"]) == status
    assert main(["dev", "--built", "--import-existing-resources"]) == status
    assert asked == [("dev", False, True), ("dev", True, False)]
    lines = [f"{'error' if f.stops else 'note'}: {f.text}" for f in findings]
    assert capsys.readouterr().err.splitlines() == lines * 2


def test_an_unknown_environment_is_an_error(capsys):
    """The message is the same as that of synth."""
    assert main(["nowhere"]) == 1
    assert capsys.readouterr().err.startswith("error: there is no environment 'nowhere'")


def test_an_own_key_and_existing_resources_are_looked_up(environments):
    """A failed lookup is printed as a note, and the other checks run."""
    session = _Session("lambda", "cloudformation", "ecr", "sts")
    session.has(1000)
    session.stubs["ecr"].add_client_error("describe_repositories", "AccessDeniedException")
    (finding,) = before_deploy(session, environments["own-key"], imports=False)
    assert not finding.stops
    assert finding.text.startswith("the key of [encryption] could not be looked up")
    session.has(1000)
    session.stubs["sts"].add_client_error("get_caller_identity", "AccessDeniedException")
    (finding,) = before_deploy(session, environments["existing"], imports=False)
    assert not finding.stops
    assert finding.text.startswith("the resources of [existing] could not be looked up")
