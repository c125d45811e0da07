"""Test the vector index: its resources, its replacement, and what each grant allows."""

import json
from typing import Any

import pytest
from aws_cdk import CfnParameter, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Match, Template
from constructs import Construct

from embedder.core.settings import EmbedderSettings
from embedding_kit import EmbeddingEndpoint, ModelSettings, VectorIndex, VectorIndexSettings
from tests.embedding_kit.endpoints import make_endpoint
from tests.embedding_kit.roles import HOME, allowed, of_kind, statements
from tests.embedding_kit.roles import KEY as ANY_KEY

INDEX = f"arn:aws:s3vectors:us-east-1:{HOME}:bucket/vectors/index/docs"
KEY = f"{ANY_KEY}1111aaaa"


def test_what_aws_cannot_change_makes_another_index(model, tmp_path):
    """With another id, what refers to the index changes too, such as a function's version."""
    weights = tmp_path / "weights"
    weights.write_bytes(b"one")
    folder = ModelSettings(name="my/model", folder=tmp_path, index_dimension=10)
    stack = Stack()

    def id_of(of: ModelSettings = model, key: kms.IKey | None = None, **settings: Any) -> str:
        scope = Construct(stack, f"Scope{len(stack.node.children)}")
        given = VectorIndexSettings(**settings)
        made = VectorIndex(scope, "Vectors", model=of, settings=given, key=key)
        return made.index.node.id

    ids = [
        id_of(),
        id_of(non_filterable=("url",)),
        id_of(text_search="en"),
        id_of(text_search="standard"),
        id_of(key=kms.Key.from_key_arn(stack, "Key", KEY)),
        id_of(ModelSettings(name="BAAI/bge-small-en-v1.5")),
        id_of(ModelSettings(name="all-MiniLM-L6-v2", revision="0" * 40)),
        id_of(ModelSettings(name="all-MiniLM-L6-v2", precision="fp32")),
        id_of(folder),
        id_of(folder.model_copy(update={"index_dimension": 20})),
    ]
    weights.write_bytes(b"two")
    ids.append(id_of(folder))
    assert len(set(ids)) == len(ids)


def test_a_second_index_is_of_another_model(model, tmp_path):
    """Two folders with the same files have the same vectors."""
    stack = Stack()
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        (folder / "weights").write_bytes(b"one")
    first, second = (ModelSettings(name="a/b", folder=each, index_dimension=10) for each in folders)
    vectors = VectorIndex(stack, "Vectors", model=first)
    with pytest.raises(ValueError, match=r"found: a/b twice, .* allowed: another model"):
        vectors.add_standby(second)
    assert vectors.add_standby(model).key_arn is None
    Template.from_stack(stack).resource_count_is("AWS::S3Vectors::VectorBucket", 1)
    Template.from_stack(stack).resource_count_is("AWS::S3Vectors::Index", 2)


@pytest.mark.parametrize(
    ("language", "properties"),
    [
        (None, Match.absent()),
        ("standard", [{"MetadataKey": "text"}]),
        ("ko", [{"MetadataKey": "text", "Language": "ko"}]),
    ],
)
def test_the_texts_of_an_index_may_be_searched_for_words(synthesize, model, language, properties):
    """The text stays non-filterable; `standard` is the analyzer of no language."""
    settings = VectorIndexSettings(text_search=language)
    template = synthesize(lambda stack: VectorIndex(stack, "V", model=model, settings=settings))
    template.has_resource_properties(
        "AWS::S3Vectors::Index",
        {
            "MetadataConfiguration": {
                "NonFilterableMetadataKeys": ["text"],
                "TextSearchConfigurations": properties,
            }
        },
    )


def test_a_key_encrypts_the_index(synthesize, model):
    """The bucket has none, because it could never get another one."""
    template = synthesize(
        lambda stack: VectorIndex(
            stack, "Vectors", model=model, key=kms.Key.from_key_arn(stack, "Key", KEY)
        )
    )
    template.has_resource_properties(
        "AWS::S3Vectors::Index",
        {"EncryptionConfiguration": {"SseType": "aws:kms", "KmsKeyArn": KEY}},
    )
    template.has_resource_properties(
        "AWS::S3Vectors::VectorBucket", {"EncryptionConfiguration": Match.absent()}
    )


@pytest.fixture(scope="module")
def granted(synthesize):
    """Return the template of a role with each grant."""

    def build(stack: Stack) -> None:
        imported = VectorIndex.from_index_arn(stack, "Vectors", INDEX, key_arn=KEY)
        for grant in ("query", "load", "edit"):
            role = iam.Role(stack, grant, assumed_by=iam.AccountRootPrincipal())
            getattr(imported, f"grant_{grant}")(role).assert_success()

    return synthesize(build)


SEEN, EVERY = {"GetIndex", "ListTagsForResource"}, {"PutVectors", "GetVectors", "DeleteVectors"}
#: What no grant allows.
NEVER = {"DeleteIndex", "CreateIndex", "PutVectorBucketPolicy", "UntagResource"}


@pytest.mark.parametrize(
    ("grant", "actions", "keys"),
    [
        ("query", SEEN | {"QueryVectors", "GetVectors"}, {"Decrypt"}),
        ("load", SEEN | {"PutVectors"}, {"Decrypt", "GenerateDataKey"}),
        ("edit", SEEN | EVERY | {"ListVectors"}, {"Decrypt", "GenerateDataKey"}),
    ],
)
def test_a_grant_allows_its_work_and_nothing_else(granted, grant, actions, keys):
    """No grant deletes an index, changes a policy or works on another index."""
    every = sorted(SEEN | EVERY | NEVER | {"QueryVectors", "ListVectors"})
    cases = [
        *((grant, f"s3vectors:{action}", INDEX) for action in every),
        *((grant, f"kms:{each}", KEY) for each in ("Decrypt", "Encrypt", "GenerateDataKey")),
        (grant, "s3vectors:QueryVectors", f"{INDEX}2"),
        (grant, "s3vectors:PutVectors", f"{INDEX}2"),
    ]
    found = allowed(granted, cases)
    assert {case[2] for case in found} == {INDEX, KEY}
    assert {case[1].partition(":")[2] for case in found} == actions | keys


def test_a_load_may_only_write_the_tag_of_the_vector_space(granted):
    """Other tags decide on costs and permissions."""
    space, team = ({"aws:TagKeys": [tag]} for tag in ("embedding-kit:vector-space", "team"))
    cases = [
        (grant, "s3vectors:TagResource", INDEX, tags)
        for grant, tags in (("load", space), ("load", team), ("query", space))
    ]
    assert allowed(granted, cases) == cases[:1]


def test_the_endpoint_gets_the_index_and_may_query_it(synthesize, model):
    """Its variable is one that the embedder knows. Without an index, nothing changes."""

    def build(stack: Stack) -> None:
        imported = VectorIndex.from_index_arn(stack, "Vectors", INDEX)
        make_endpoint(stack, model=model, name="search", vector_index=imported)

    template = synthesize(build)
    (variables,) = (
        properties["Environment"]["Variables"]
        for properties in of_kind(template, "AWS::Lambda::Function")
        if "EMBEDDING_VECTOR_INDEX" in properties.get("Environment", {}).get("Variables", {})
    )
    assert variables["EMBEDDING_VECTOR_INDEX"] == INDEX
    assert EmbedderSettings.from_env(variables)
    policies = json.dumps(statements(template))
    assert "s3vectors:QueryVectors" in policies
    assert "s3vectors:PutVectors" not in policies
    assert "kms:Decrypt" not in policies
    without = synthesize(lambda s: EmbeddingEndpoint(s, "Endpoint", model=model, name="other"))
    assert "s3vectors" not in json.dumps(without.to_json())


@pytest.mark.parametrize("arn", [INDEX.partition("/index")[0], INDEX + "/", "docs", INDEX.upper()])
def test_an_import_needs_the_arn_of_an_index(arn):
    """The ARN of a vector bucket is not enough; one from a parameter is not checked."""
    stack = Stack()
    with pytest.raises(ValueError, match="allowed: the ARN of the index, such as arn:aws:s3vec"):
        VectorIndex.from_index_arn(stack, "Vectors", arn)
    given = CfnParameter(stack, "Given").value_as_string
    assert VectorIndex.from_index_arn(stack, "Other", given).index_arn == given
