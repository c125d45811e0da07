"""scripts/prune deletes what nothing uses, and nothing else, in the emulated AWS."""

from dataclasses import replace
from uuid import uuid4

import pytest

from embedding_kit.settings import Existing, Experiment, ModelSettings, VectorIndexSettings
from operations import prune as command
from operations.deployed import find_deployed
from operations.environment_session import list_all
from operations.prune import make_plan, prune
from stacks.environment import EnvironmentSettings
from tools.rehearsal.deploy.docker_client import push_empty

from .conftest import Root
from .emulated_release import Release, during_the_shift


@pytest.fixture(scope="module")
def role(aws):
    """Return a role for functions, which are never invoked."""
    return aws.make_role(f"prune-{uuid4().hex[:12]}")


class _Deployed:
    """An environment with five versions, each of its own image, and an image that nothing uses."""

    def __init__(self, aws, stack, role):
        self.aws = aws
        self.environment = EnvironmentSettings(
            name=f"p{uuid4().hex[:12]}",
            model=ModelSettings(name="sentence-transformers/all-MiniLM-L6-v2"),
        )
        self.name = f"embedding-kit-{self.environment.name}"
        self.uri = f"{aws.registry}/{self.name}"
        aws.client("ecr").create_repository(repositoryName=self.name)
        self.digests = [self.push(f"image{number}") for number in range(6)]
        self.function = f"{self.name}-function"
        code = {"ImageUri": f"{self.uri}@{self.digests[1]}"}
        client = aws.client("lambda")
        client.create_function(
            FunctionName=self.function, Role=role, PackageType="Image", Code=code
        )
        client.publish_version(FunctionName=self.function)
        for digest in self.digests[2:]:
            client.update_function_code(
                FunctionName=self.function, ImageUri=f"{self.uri}@{digest}", Publish=True
            )
        alias = client.create_alias(FunctionName=self.function, Name="live", FunctionVersion="5")
        resources = {"Any": {"Type": "AWS::SNS::Topic"}}
        outputs = {"AliasArn": {"Value": alias["AliasArn"]}}
        stack(f"EmbeddingKit-{self.environment.name}-Endpoint", resources, outputs)

    def push(self, tag):
        push_empty(f"localhost:{self.aws.port}/{self.name}:{tag}")
        images = self.aws.client("ecr").describe_images(repositoryName=self.name)["imageDetails"]
        (found,) = (image["imageDigest"] for image in images if tag in image["imageTags"])
        return found

    def versions(self):
        found = self.aws.client("lambda").list_versions_by_function(FunctionName=self.function)
        return [version["Version"] for version in found["Versions"]]

    def images(self):
        found = self.aws.client("ecr").describe_images(repositoryName=self.name)["imageDetails"]
        return [image["imageTags"][0] for image in found]

    def close(self):
        self.aws.client("lambda").delete_function(FunctionName=self.function)
        self.aws.client("ecr").delete_repository(repositoryName=self.name, force=True)


@pytest.fixture
def deployed(aws, stack, role, monkeypatch):
    monkeypatch.setattr(command, "version_before", lambda *_: "4")
    made = _Deployed(aws, stack, role)
    yield made
    made.close()


def _plan(deployed, keep=1):
    return make_plan(Root(deployed.aws), deployed.environment, keep=keep)


def test_what_nothing_uses_is_deleted(deployed):
    """The version of the alias and the one before it stay, with their images."""
    session = Root(deployed.aws)
    plan = _plan(deployed)
    assert plan.versions == ["1", "2", "3"]
    assert sorted(plan.images) == sorted(deployed.digests[:4])
    assert "5" in deployed.versions()
    prune(session, deployed.environment, plan)
    assert deployed.versions() == ["$LATEST", "4", "5"]
    assert deployed.images() == ["image4", "image5"]
    # A second run finds nothing, as one does after an interruption between the two steps.
    again = _plan(deployed)
    assert (again.versions, again.images, str(again)) == ([], [], "nothing")


def test_the_newest_are_kept(deployed):
    """Whether they are used or not: an image may wait for its promotion."""
    deployed.push("waiting")
    plan = _plan(deployed, keep=4)
    assert plan.versions == ["1"]
    assert sorted(plan.images) == sorted(deployed.digests[:2])


def test_the_newest_are_those_of_the_last_numbers_and_times(deployed, monkeypatch):
    """Version 10 is newer than version 9, and ECR lists images in any order."""

    def reversed_images(client, operation, found, **asked):
        items = list(list_all(client, operation, found, **asked))
        if found != "imageDetails":
            return items
        return [item | {"imagePushedAt": number} for number, item in enumerate(items)][::-1]

    monkeypatch.setattr(command, "list_all", reversed_images)
    every = [{"Version": str(number)} for number in range(1, 13)]
    monkeypatch.setattr(command, "list_versions", lambda *_: every)
    plan = _plan(deployed, keep=3)
    assert plan.versions == ["1", "2", "3", "6", "7", "8", "9"]
    assert sorted(plan.images) == sorted(deployed.digests[:3])


def test_a_share_of_the_traffic_is_use(deployed):
    """An experiment or a release sends requests to a second version; another alias may have one."""
    client = deployed.aws.client("lambda")
    client.update_alias(
        FunctionName=deployed.function,
        Name="live",
        RoutingConfig={"AdditionalVersionWeights": {"1": 0.1}},
    )
    client.create_alias(FunctionName=deployed.function, Name="candidate", FunctionVersion="2")
    plan = _plan(deployed)
    assert plan.versions == ["3"]
    assert sorted(plan.images) == sorted([deployed.digests[0], deployed.digests[3]])
    # The file may name a version before the deploy that gives it requests.
    settings = deployed.environment.model_copy(update={"experiment": Experiment(version=3)})
    assert make_plan(Root(deployed.aws), settings, keep=1).versions == []


def test_another_environments_function_is_use(deployed, role):
    """So is a batch's: any function of the account and region, by digest or by tag."""
    client = deployed.aws.client("lambda")
    names = {
        f"{deployed.name}-digest": f"{deployed.uri}@{deployed.digests[0]}",
        f"{deployed.name}-tag": f"{deployed.uri}:image1",
    }
    for name, uri in names.items():
        client.create_function(
            FunctionName=name, Role=role, PackageType="Image", Code={"ImageUri": uri}
        )
    images = _plan(deployed).images
    for name in names:
        client.delete_function(FunctionName=name)
    assert sorted(images) == sorted(deployed.digests[2:4])


def test_a_servers_task_is_use(deployed):
    """An active task definition may start at any time."""
    client = deployed.aws.client("ecs")
    container = {"name": "server", "image": f"{deployed.uri}@{deployed.digests[2]}", "memory": 512}
    made = client.register_task_definition(family=deployed.name, containerDefinitions=[container])
    images = _plan(deployed).images
    client.deregister_task_definition(taskDefinition=made["taskDefinition"]["taskDefinitionArn"])
    assert deployed.digests[2] not in images
    assert len(images) == 3


def test_without_a_version_to_go_back_to_all_are_kept(deployed, monkeypatch):
    """The alias was changed by other means, so any version may be meant."""

    def unknown(*_):
        raise ValueError("the alias serves version 2, and the last release moved it to 5")

    monkeypatch.setattr(command, "version_before", unknown)
    plan = _plan(deployed)
    assert plan.versions == []
    assert plan.images == [deployed.digests[0]]


def test_what_is_not_deployed_is_refused(aws):
    """Without a stack, prune cannot know what is in use, so it deletes nothing."""
    environment = EnvironmentSettings(name="nowhere", model=ModelSettings(name="any/model"))
    with pytest.raises(ValueError, match="nowhere is not deployed; nothing was deleted"):
        make_plan(Root(aws), environment, keep=1)


@pytest.mark.slow
def test_a_deployment_that_runs_under_a_complete_stack_is_waited_for(aws, image, monkeypatch):
    """As one that was started by hand: CodeDeploy may go back to an old version."""
    environment = EnvironmentSettings(
        name=f"p{uuid4().hex[:8]}", model=ModelSettings(name="any/model")
    )
    release = Release(aws, f"EmbeddingKit-{environment.name}-Endpoint", image)
    assert release.deploy("a") == "CREATE_COMPLETE"
    found = find_deployed
    refused: list[str] = []

    def prune_now() -> None:
        for status in ("UPDATE_IN_PROGRESS", "UPDATE_COMPLETE"):
            monkeypatch.setattr(
                command,
                "find_deployed",
                lambda *asked, status=status: replace(found(*asked), status=status),
            )
            running = (
                rf"a release of {environment.name} is running \({status}\).*nothing was deleted"
            )
            with pytest.raises(ValueError, match=running):
                make_plan(Root(aws), environment, keep=1)
            refused.append(status)

    assert during_the_shift(release, prune_now, "b") == "UPDATE_COMPLETE"
    assert refused == ["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE"]
    release.cloudformation.delete_stack(StackName=release.name)


def test_the_version_of_the_stack_is_use(aws, stack, role, image, monkeypatch):
    """A rollback of the stack needs it, also where other versions are newer and serve."""
    environment = EnvironmentSettings(
        name=f"p{uuid4().hex[:8]}", model=ModelSettings(name="any/model")
    )
    name = f"EmbeddingKit-{environment.name}-Endpoint"
    function = {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "FunctionName": name,
            "PackageType": "Image",
            "Code": image("functions:a"),
            "Role": role,
        },
    }
    version = {"Type": "AWS::Lambda::Version", "Properties": {"FunctionName": {"Ref": "Function"}}}
    arn = f"arn:aws:lambda:{aws.region}:{aws.account}:function:{name}:live"
    stack(name, {"Function": function, "Version": version}, {"AliasArn": {"Value": arn}})
    client = aws.client("lambda")
    for tag in "bc":
        client.update_function_code(FunctionName=name, **image(f"functions:{tag}"), Publish=True)
    client.create_alias(FunctionName=name, Name="live", FunctionVersion="3")
    monkeypatch.setattr(command, "version_before", lambda *_: "3")
    assert make_plan(Root(aws), environment, keep=1).versions == ["2"]


@pytest.mark.parametrize("removal", ["retain", "destroy"])
def test_indexes_are_deleted_only_if_the_settings_say_so(deployed, monkeypatch, removal):
    """They are named with the versions that are the last to use them."""
    asked, deleted = [], []

    def unused(_, store, *, gone):
        asked.append((store, sorted(gone)))
        return ["the-index"]

    monkeypatch.setattr(command, "find_store", lambda *_: "the-store")
    monkeypatch.setattr(command, "unused_indexes", unused)
    monkeypatch.setattr(command, "delete_indexes", lambda *given, **_: deleted.extend(given[1]))
    session = Root(deployed.aws)
    environment = deployed.environment.model_copy(
        update={"index": VectorIndexSettings(), "removal_policy": removal}
    )
    plan = make_plan(session, environment, keep=1)
    if removal == "retain":
        assert (plan.indexes, asked) == ([], [])
        return
    assert asked == [("the-store", [(deployed.function, version) for version in "123"])]
    assert str(plan).endswith("\nindex the-index with its vectors")
    prune(session, environment, plan)
    assert deleted == ["the-index"]


def test_nothing_is_deleted_without_yes(deployed, monkeypatch, capsys):
    """The command prints what it would delete, and the command that does."""
    monkeypatch.setattr(command, "session_for", lambda _: Root(deployed.aws))
    monkeypatch.setattr(
        "operations.command.load_environment", lambda *_, **__: deployed.environment
    )
    place = f"{deployed.aws.account}, {deployed.aws.region}"
    for keep in ("0", "-1"):
        assert command.main([deployed.environment.name, "--keep", keep, "--yes"]) == 1
        assert f"--keep: found: {keep}; allowed: 1 or more" in capsys.readouterr().err
    assert command.main([deployed.environment.name, "--keep", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"Would delete in {place}:\nversion 1 of {deployed.function}\n")
    assert printed.endswith(f"scripts/prune {deployed.environment.name} --keep 2 --yes\n")
    assert len(deployed.versions()) == 6
    assert command.main([deployed.environment.name, "--keep", "2", "--yes"]) == 0
    assert deployed.versions() == ["$LATEST", "4", "5"]


def test_an_image_that_ecr_does_not_delete_is_an_error(deployed):
    """As of one that another image refers to; the next run tries again."""
    plan = replace(_plan(deployed), versions=[], images=[f"sha256:{'0' * 64}"])
    with pytest.raises(ValueError, match="ECR did not delete sha256:000"):
        prune(Root(deployed.aws), deployed.environment, plan)


def test_no_image_of_an_existing_repository_is_deleted(deployed):
    """Others may run its images where the command cannot look."""
    existing = Existing(repository=deployed.name)
    environment = deployed.environment.model_copy(update={"existing": existing})
    plan = make_plan(Root(deployed.aws), environment, keep=1)
    assert plan.versions == ["1", "2", "3"]
    assert plan.images == []
